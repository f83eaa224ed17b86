// Encoder of IQ1, IQ2 and IQ3: x ≈ d · (2s + 1) · (± level of a digit + shift), where the digits of 4 or 8 elements are
// a point of a lattice, d is one f16 and s a sub-scale of each group. Private to this folder.
#pragma once

#include "src/formats/quant/encode.h"
#include "src/formats/quant/lattice.h"

namespace gabbro::quant {

enum class GridSigns {
  kNone,  // levels have both signs
  kFree,  // one for each element
  kEven,  // of eight elements an even number is negative
};

enum class GridShift {
  kNone,
  kGroup,  // + or - 1/8 for 32 elements
  kPoint,  // + or - 1/8 for each point
};

struct GridFormat {
  int digits;       // of a point: 4 or 8
  int group;        // elements of a sub-scale: 16 or 32
  int largest_sub;  // s is 0 to largest_sub
  GridSigns signs;
  GridShift shift = GridShift::kNone;
  int scale_shift;  // the stored scale is d · 2^scale_shift
  // Candidates for a group's scale: the peak becomes `first` + k · `step` times the highest level, k < count.
  float first, step;
  int count;
};

template <GridFormat kFormat>
class GridFit {
 public:
  static constexpr int kDigits = kFormat.digits, kGroups = 256 / kFormat.group, kPoints = 256 / kDigits;
  float scale;              // d, without the factor 2^scale_shift
  int sub_scales[kGroups];  // s
  int points[kPoints];
  bool shifted_down[kPoints];
  uint8_t signs[32];  // bit i: element i of eight is negative

  GridFit(const Lattice& lattice, const float* values, const float* importance) : lattice_(lattice) {
    scale_block(values, importance, block_);
    take_signs();
    float ideal[kGroups];
    for (int g = 0; g < kGroups; ++g) ideal[g] = search(g);
    choose(ideal);
  }

 private:
  static constexpr int kParts = kDigits / kLanes;
  static constexpr int kGroupPoints = kFormat.group / kDigits;
  static constexpr float kShift = 0.125f;

  struct Sums {
    float error, with_x, squares;  // of levels l: Σ w (x - step · l)², Σ w x l, Σ w l²
  };

  struct Choice {
    float scale = 0;
    float error = std::numeric_limits<float>::infinity();
    int subs[kGroups] = {};
    int points[kPoints] = {};
    bool down[kPoints] = {};
  };

  // Makes values positive. If the number of signs must be even, the element that costs least gets the wrong sign.
  void take_signs() {
    for (int i = 0; i < 32; ++i) {
      float* x = block_.values + 8 * i;
      const float* w = block_.weights + 8 * i;
      unsigned bits = 0;
      if constexpr (kFormat.signs != GridSigns::kNone) {
        for (int j = 0; j < 8; ++j) {
          bits |= static_cast<unsigned>(std::signbit(x[j])) << j;
          x[j] = std::fabs(x[j]);
        }
        if (kFormat.signs == GridSigns::kEven && std::popcount(bits) % 2 != 0) {
          int least = 0;
          for (int j = 1; j < 8; ++j) {
            if (w[j] * x[j] < w[least] * x[least]) least = j;
          }
          bits ^= 1u << least;
          x[least] = -x[least];
        }
      }
      signs[i] = static_cast<uint8_t>(bits);
    }
  }

  // Errors of four points, as far as they depend on the point: Σ l · (w l - 2 w y).
  static Lanes errors(const float* const* candidates, const Lanes* w, const Lanes* twice_wy) {
    Lanes rows[kLanes];
    for (int k = 0; k < kLanes; ++k) {
      rows[k] = Lanes{};
      for (int part = 0; part < kParts; ++part) {
        const Lanes level = load_lanes(candidates[k] + kLanes * part);
        rows[k] += level * (w[part] * level - twice_wy[part]);
      }
    }
    const Lanes a = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5) +
                    __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);  // 0 1 0 1
    const Lanes b = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5) +
                    __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);  // 2 3 2 3
    return __builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7);
  }

  // The point next to y = x / step - shift, and its error.
  int nearest(const Lanes* y, const Lanes* w, float& error) const {
    const LatticeLevels& levels = lattice_.levels();
    const float inverse = 1 / levels.slope, offset = -levels.start / levels.slope;
    Lanes twice_wy[kParts], key{};
    float power = 1;
    for (int part = 0; part < kParts; ++part) {
      Lanes powers;
      for (int i = 0; i < kLanes; ++i, power *= static_cast<float>(kDigits == 8 ? 3 : 8)) powers[i] = power;
      key += powers * round_lanes(clamp(y[part] * inverse + offset, 0, static_cast<float>(levels.count - 1)));
      twice_wy[part] = 2.0f * w[part] * y[part];
    }
    const int count = lattice_.neighbor_count();
    const uint16_t* near = lattice_.neighbors(static_cast<int>(sum(key)));
    Lanes best = broadcast(std::numeric_limits<float>::infinity());
    IntLanes best_at{};
    for (int k = 0; k < count; k += kLanes) {
      const float* candidates[kLanes];
      for (int i = 0; i < kLanes; ++i) candidates[i] = lattice_.point(near[k + i]);
      const Lanes found = errors(candidates, w, twice_wy);
      const IntLanes better = found < best;
      best = select(better, found, best);
      best_at = better ? IntLanes{} + k : best_at;
    }
    int lane = 0;
    for (int i = 1; i < kLanes; ++i) {
      if (best[i] < best[lane]) lane = i;
    }
    error = best[lane];
    return near[best_at[lane] + lane];
  }

  // Picks the points of a group for a step.
  Sums measure(int group, float step, float group_shift, int* chosen, bool* down) const {
    const float inverse = step != 0 ? 1 / step : 0;
    Lanes error{}, with_x{}, squares{};
    for (int p = 0; p < kGroupPoints; ++p) {
      const int first = group * kFormat.group + p * kDigits;
      Lanes x[kParts], w[kParts], y[kParts];
      for (int part = 0; part < kParts; ++part) {
        x[part] = load_lanes(block_.values + first + kLanes * part);
        w[part] = load_lanes(block_.weights + first + kLanes * part);
        y[part] = x[part] * inverse - group_shift;
      }
      float shift = group_shift, lowered;
      chosen[p] = nearest(y, w, lowered);
      if constexpr (kFormat.shift == GridShift::kPoint) {
        // `lowered` leaves out Σ w y², which the shift changes.
        float other_lowered;
        Lanes other_y[kParts], difference{};
        for (int part = 0; part < kParts; ++part) {
          other_y[part] = y[part] + 2 * group_shift;
          difference += w[part] * (other_y[part] * other_y[part] - y[part] * y[part]);
        }
        const int other = nearest(other_y, w, other_lowered);
        if (other_lowered + sum(difference) < lowered) {
          chosen[p] = other;
          shift = -group_shift;
        }
      }
      down[p] = shift < 0;
      const float* point = lattice_.point(chosen[p]);
      for (int part = 0; part < kParts; ++part) {
        const Lanes level = load_lanes(point + kLanes * part) + shift;
        const Lanes weighted = w[part] * level;
        const Lanes rest = x[part] - step * level;
        error += w[part] * rest * rest;
        with_x += weighted * x[part];
        squares += weighted * level;
      }
    }
    return {sum(error), sum(with_x), sum(squares)};
  }

  // Shifts that a group is tried with.
  static constexpr int kShifts = kFormat.shift == GridShift::kGroup ? 2 : 1;
  static constexpr float shift_of(int number) {
    return kFormat.shift == GridShift::kNone ? 0 : number == 0 ? kShift : -kShift;
  }

  // The scale of a group alone: with levels l it is Σ w x l / Σ w l², and the error falls by (Σ w x l)² / Σ w l².
  float search(int group) const {
    const LatticeLevels& levels = lattice_.levels();
    float peak = 0;
    for (int i = 0; i < kFormat.group; ++i) peak = std::max(peak, std::fabs(block_.values[group * kFormat.group + i]));
    if (peak == 0) return 0;
    const float highest = levels.level[levels.count - 1];
    int chosen[kGroupPoints];
    bool down[kGroupPoints];
    float best = 0, best_gain = 0;
    const auto consider = [&](float step) {
      for (int number = 0; number < kShifts; ++number) {
        const Sums sums = measure(group, step, shift_of(number), chosen, down);
        if (sums.with_x > 0 && sums.with_x * sums.with_x > best_gain * sums.squares) {
          best_gain = sums.with_x * sums.with_x / sums.squares;
          best = sums.with_x / sums.squares;
        }
      }
    };
    for (int k = 0; k < kFormat.count; ++k)
      consider(peak / (highest * (kFormat.first + kFormat.step * static_cast<float>(k))));
    if (kFormat.signs != GridSigns::kNone) consider(peak / levels.level[0]);  // a group of equal values
    if (best != 0) consider(best);
    return best;
  }

  // Rounds the groups' scales to odd multiples of a common one, then fits that one to the rounded twice.
  void choose(const float* ideal) {
    const float unit = std::ldexp(block_.unit, kFormat.scale_shift);
    constexpr int kRounds = 3;
    Choice best;
    float next = *std::max_element(ideal, ideal + kGroups) / (2 * kFormat.largest_sub + 1);
    for (int round = 0; round < kRounds; ++round) {
      Choice choice;
      choice.scale = round_to_half(next, unit);
      next = assign(ideal, best, choice);
      if (!(choice.error < best.error)) break;
      best = choice;
    }
    scale = best.scale * block_.unit;
    std::copy_n(best.subs, kGroups, sub_scales);
    std::copy_n(best.points, kPoints, points);
    std::copy_n(best.down, kPoints, shifted_down);
  }

  // Picks sub-scales, or takes the ones of `previous`, and points. Returns the scale that fits them best.
  float assign(const float* ideal, const Choice& previous, Choice& choice) const {
    const bool first = previous.scale == 0;
    double with_x = 0, squares = 0, error = 0;
    for (int g = 0; g < kGroups; ++g) {
      int least = previous.subs[g], most = least;
      if (first) {
        const float multiple = choice.scale != 0 ? ideal[g] / choice.scale : 0;
        const float half = std::min((multiple - 1) / 2, static_cast<float>(kFormat.largest_sub));
        least = std::max(0, static_cast<int>(std::floor(half)));
        most = std::min(least + 1, kFormat.largest_sub);
      }
      Sums best{std::numeric_limits<float>::infinity(), 0, 0};
      for (int sub = least; sub <= most; ++sub) {
        for (int number = 0; number < kShifts; ++number) {
          int chosen[kGroupPoints];
          bool down[kGroupPoints];
          const Sums sums = measure(g, choice.scale * static_cast<float>(2 * sub + 1), shift_of(number), chosen, down);
          if (!(sums.error < best.error)) continue;
          best = sums;
          choice.subs[g] = sub;
          std::copy_n(chosen, kGroupPoints, choice.points + g * kGroupPoints);
          std::copy_n(down, kGroupPoints, choice.down + g * kGroupPoints);
        }
      }
      const double factor = 2 * choice.subs[g] + 1;
      error += best.error;
      with_x += factor * best.with_x;
      squares += factor * factor * best.squares;
    }
    choice.error = static_cast<float>(error);
    return squares > 0 ? static_cast<float>(with_x / squares) : 0;
  }

  const Lattice& lattice_;
  ScaledBlock<256> block_;
};

}  // namespace gabbro::quant
