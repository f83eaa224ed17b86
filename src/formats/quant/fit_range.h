// Encoder of formats with x ≈ d · s · q - dmin · m: two f16 scales, for each group a sub-scale s and a sub-minimum m,
// both at least 0 (or none: the minimum has any sign then), codes q from 0. Private to this folder.
#pragma once

#include "src/formats/quant/encode.h"

namespace gabbro::quant {

// Candidates for a group's scale: its range becomes `first` + k · `step` codes, k < count.
struct RangeCandidates {
  float first, step;
  int count;
};

template <int kLargest, int kGroups, int kSize, int kLargestSub>
class RangeFit {
 public:
  float scale, minimum;  // d and dmin, f16s; without sub-scales the minimum is the summand: x ≈ d · q + minimum
  int sub_scales[kGroups], sub_minimums[kGroups];
  uint8_t codes[kGroups * kSize];

  RangeFit(const float* values, const float* importance, const RangeCandidates& candidates)
      : block_(values, importance) {
    Line ideal[kColumns];
    for (int c = 0; c < kColumns; ++c) {
      for (int i = 0; i < kSize; ++i) {
        weight_[c] += block_.w[c][i];
        weighted_x_[c] += block_.w[c][i] * block_.x[c][i];
      }
      ideal[c] = search(c, candidates);
    }
    choose(ideal);
  }

 private:
  using Block = GroupLanes<kGroups, kSize>;
  static constexpr int kColumns = Block::kColumns;
  static constexpr bool kSubScales = kLargestSub > 1;

  struct Line {
    Lanes slope{}, start{};  // x ≈ slope · q + start
  };

  // Sums over a group's elements.
  struct Sums {
    Lanes q{}, qq{}, qx{};  // Σ w q, Σ w q², Σ w q x
    Lanes error{};
  };

  struct Choice {
    float scale = 0, minimum = 0;
    float error = std::numeric_limits<float>::infinity();
    Lanes subs[kColumns] = {}, minimums[kColumns] = {};
  };

  static Lanes quantize(Lanes value) { return round_lanes(clamp(value, 0, kLargest)); }

  // The line of least squares through codes, and by how much it lowers the error.
  Lanes fit_line(int column, const Sums& sums, Line& line) const {
    const Lanes weight = weight_[column], x = weighted_x_[column];
    const Lanes determinant = weight * sums.qq - sums.q * sums.q;
    const IntLanes regular = determinant > 1e-5f * weight * sums.qq;  // else all codes are equal
    const Lanes inverse = invert(select(regular, determinant, Lanes{}));
    line.slope = (weight * sums.qx - x * sums.q) * inverse;
    line.start = select(regular, (sums.qq * x - sums.q * sums.qx) * inverse, x * invert(weight));
    if constexpr (kSubScales) {
      const IntLanes above = line.start > 0.0f;
      line.start = select(above, Lanes{}, line.start);
      line.slope = select(above, sums.qx * invert(sums.qq), line.slope);
    }
    return line.slope * sums.qx + line.start * x;
  }

  // The line of each group alone.
  Line search(int column, const RangeCandidates& candidates) const {
    const Lanes *x = block_.x[column], *w = block_.w[column];
    Lanes low = x[0], high = x[0];
    for (int i = 1; i < kSize; ++i) {
      low = min(x[i], low);
      high = max(x[i], high);
    }
    if constexpr (kSubScales) low = min(low, Lanes{});
    const Lanes inverse_range = invert(high - low);
    Line best;
    Lanes best_gain{};
    const auto consider = [&](Lanes start, Lanes inverse) {
      Sums sums;
      const Lanes offset = -start * inverse;
      for (int i = 0; i < kSize; ++i) {
        const Lanes q = quantize(x[i] * inverse + offset);
        const Lanes weighted = w[i] * q;
        sums.q += weighted;
        sums.qq += weighted * q;
        sums.qx += weighted * x[i];
      }
      Line line;
      const Lanes gain = fit_line(column, sums, line);
      const IntLanes better = gain > best_gain;
      best_gain = select(better, gain, best_gain);
      best.slope = select(better, line.slope, best.slope);
      best.start = select(better, line.start, best.start);
    };
    // A lone group has a candidate in each lane.
    constexpr int kTogether = kGroups == 1 ? kLanes : 1;
    Lanes offset{};
    if constexpr (kGroups == 1) {
      for (int lane = 0; lane < kLanes; ++lane) offset[lane] = candidates.step * static_cast<float>(lane);
    }
    for (int k = 0; k < candidates.count; k += kTogether) {
      consider(low, (offset + (candidates.first + candidates.step * static_cast<float>(k))) * inverse_range);
    }
    for (int k = 0; k < 2; ++k) consider(best.start, invert(best.slope));
    if constexpr (kGroups == 1) {
      int lane = 0;
      for (int i = 1; i < kLanes; ++i) {
        if (best_gain[i] > best_gain[lane]) lane = i;
      }
      best.slope = broadcast(best.slope[lane]);
      best.start = broadcast(best.start[lane]);
    }
    return best;
  }

  Sums measure(int column, Lanes slope, Lanes start) const {
    const Lanes *x = block_.x[column], *w = block_.w[column];
    const Lanes inverse = invert(slope);
    const Lanes offset = -start * inverse;
    Sums sums;
    for (int i = 0; i < kSize; ++i) {
      const Lanes q = quantize(x[i] * inverse + offset);
      const Lanes weighted = w[i] * q;
      const Lanes rest = x[i] - (slope * q + start);
      sums.q += weighted;
      sums.qq += weighted * q;
      sums.qx += weighted * x[i];
      sums.error += w[i] * rest * rest;
    }
    return sums;
  }

  // Normal equations of the two scales: x ≈ d · u - dmin · m with u = s · q.
  struct Normal {
    Lanes uu{}, um{}, mm{}, ux{}, mx{};
    void add(const Sums& sums, Lanes sub, Lanes minimum, Lanes weight, Lanes x) {
      uu += sub * sub * sums.qq;
      um += sub * minimum * sums.q;
      mm += minimum * minimum * weight;
      ux += sub * sums.qx;
      mx += minimum * x;
    }
    void solve(float& scale, float& least) const {
      const double a = sum(uu), b = sum(um), c = sum(mm), p = sum(ux), q = sum(mx);
      const double determinant = a * c - b * b;
      if (determinant > 1e-6 * a * c) {
        scale = static_cast<float>((p * c - q * b) / determinant);
        least = static_cast<float>((p * b - q * a) / determinant);
      } else if (a > 0) {
        scale = static_cast<float>((p + least * b) / a);
      }
    }
  };

  // Rounds the groups' lines to multiples of two common scales, then fits those to the rounded twice.
  void choose(const Line* ideal) {
    Lanes slope = ideal[0].slope, start = ideal[0].start;
    for (int c = 1; c < kColumns; ++c) {
      slope = max(ideal[c].slope, slope);
      start = min(ideal[c].start, start);
    }
    float next_scale = slope[0], next_minimum = -start[0];
    for (int lane = 1; lane < kLanes; ++lane) {
      next_scale = std::max(next_scale, slope[lane]);
      next_minimum = std::max(next_minimum, -start[lane]);
    }
    next_scale /= kLargestSub;
    next_minimum /= kLargestSub;
    constexpr int kRounds = 3;
    Choice best;
    for (int round = 0; round < kRounds; ++round) {
      Choice choice;
      choice.scale = round_to_half(next_scale, block_.unit);
      choice.minimum = round_to_half(next_minimum, block_.unit);
      next_scale = choice.scale;
      next_minimum = choice.minimum;
      assign(ideal, best, choice, next_scale, next_minimum);
      if (!(choice.error < best.error)) break;
      best = choice;
    }
    write(best);
  }

  // Picks sub-scales and sub-minimums for two scales, or takes the ones of `previous`. Gives the scales that fit them
  // best.
  void assign(const Line* ideal, const Choice& previous, Choice& choice, float& next_scale, float& next_minimum) const {
    const float inverse_scale = choice.scale != 0 ? 1 / choice.scale : 0;
    const float inverse_minimum = choice.minimum != 0 ? 1 / choice.minimum : 0;
    const bool first = previous.scale == 0;
    Normal normal;
    Lanes error{};
    for (int c = 0; c < kColumns; ++c) {
      Lanes sub = broadcast(1), least = broadcast(1);
      Sums sums;
      if (kSubScales && first) {
        const Lanes nearest = round_lanes(clamp(ideal[c].slope * inverse_scale, 0, kLargestSub));
        const Lanes nearest_least = round_lanes(clamp(-ideal[c].start * inverse_minimum, 0, kLargestSub));
        sums.error = broadcast(std::numeric_limits<float>::infinity());
        const auto consider = [&](Lanes candidate, Lanes candidate_least) {
          const Sums others = measure(c, choice.scale * candidate, -choice.minimum * candidate_least);
          const IntLanes better = others.error < sums.error;
          sub = select(better, candidate, sub);
          least = select(better, candidate_least, least);
          sums.q = select(better, others.q, sums.q);
          sums.qq = select(better, others.qq, sums.qq);
          sums.qx = select(better, others.qx, sums.qx);
          sums.error = select(better, others.error, sums.error);
          return others;
        };
        for (const float offset : {0.0f, -1.0f, 1.0f}) {
          const Lanes candidate = clamp(nearest + offset, 0, kLargestSub);
          const Sums around = consider(candidate, nearest_least);
          // The minimum that fits these codes: a group's mean without them.
          const Lanes fitted = (choice.scale * candidate * around.q - weighted_x_[c]) * invert(weight_[c]);
          consider(candidate, round_lanes(clamp(fitted * inverse_minimum, 0, kLargestSub)));
        }
      } else {
        if constexpr (kSubScales) {
          sub = previous.subs[c];
          least = previous.minimums[c];
        }
        sums = measure(c, choice.scale * sub, -choice.minimum * least);
      }
      choice.subs[c] = sub;
      choice.minimums[c] = least;
      error += sums.error;
      normal.add(sums, sub, least, weight_[c], weighted_x_[c]);
    }
    choice.error = sum(error);
    normal.solve(next_scale, next_minimum);
  }

  void write(const Choice& choice) {
    scale = choice.scale * block_.unit;
    minimum = (kSubScales ? choice.minimum : -choice.minimum) * block_.unit;
    for (int c = 0; c < kColumns; ++c) {
      const Lanes inverse = invert(choice.scale * choice.subs[c]);
      const Lanes offset = choice.minimum * choice.minimums[c] * inverse;
      constexpr int kUsed = kGroups == 1 ? 1 : kLanes;
      for (int lane = 0; lane < kUsed; ++lane) {
        sub_scales[c * kLanes + lane] = static_cast<int>(choice.subs[c][lane]);
        sub_minimums[c * kLanes + lane] = static_cast<int>(choice.minimums[c][lane]);
      }
      for (int i = 0; i < kSize; ++i) {
        const Lanes q = quantize(block_.x[c][i] * inverse + offset);
        for (int lane = 0; lane < kUsed; ++lane)
          codes[(c * kLanes + lane) * kSize + i] = static_cast<uint8_t>(static_cast<int>(q[lane]));
      }
    }
  }

  Block block_;
  Lanes weight_[kColumns] = {}, weighted_x_[kColumns] = {};  // Σ w, Σ w x
};

}  // namespace gabbro::quant
