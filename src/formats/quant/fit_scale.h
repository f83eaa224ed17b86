// Encoder of formats with x ≈ d · s · level(code): one f16 scale d, a signed sub-scale s of each group (or none),
// levels that are uniform or of a codebook. Private to this folder.
#pragma once

#include "gabbro/quant_traits.h"
#include "src/formats/quant/encode.h"

namespace gabbro::quant {

// Integers kLow to kHigh.
template <int kLow, int kHigh>
struct UniformLevels {
  static constexpr float kLowest = kLow, kHighest = kHigh;
  static Lanes nearest(Lanes value) { return round_lanes(clamp(value, kLowest, kHighest)); }
  static uint8_t code(float level) { return static_cast<uint8_t>(static_cast<int>(level) - kLow); }
};

// Integers of a codebook. Between two multiples of one half the nearest level is the same one: a table has it.
template <const QuantLevels& kLevels>
struct CodebookLevels {
  static constexpr int kLow = *std::min_element(kLevels.value, kLevels.value + 16);
  static constexpr int kHigh = *std::max_element(kLevels.value, kLevels.value + 16);
  static constexpr float kLowest = kLow, kHighest = kHigh;
  struct Table {
    float level[2 * (kHigh - kLow) + 1];
    uint8_t code[2 * (kHigh - kLow) + 1];
  };
  static constexpr Table kTable = [] {
    Table table{};
    for (int i = 0; i <= 2 * (kHigh - kLow); ++i) {
      const int quadruple = 4 * kLow + 2 * i + 1;  // four times the middle of the interval
      int best = 0;
      const auto distance = [&](int code) {
        const int difference = 4 * kLevels.value[code] - quadruple;
        return difference < 0 ? -difference : difference;
      };
      for (int code = 1; code < 16; ++code) {
        if (distance(code) < distance(best)) best = code;
      }
      table.level[i] = kLevels.value[best];
      table.code[i] = static_cast<uint8_t>(best);
    }
    return table;
  }();
  static Lanes nearest(Lanes value) {
    const IntLanes at = __builtin_convertvector((clamp(value, kLowest, kHighest) - kLowest) * 2.0f, IntLanes);
    Lanes levels;
    for (int i = 0; i < kLanes; ++i) levels[i] = kTable.level[at[i]];
    return levels;
  }
  static uint8_t code(float level) { return kTable.code[static_cast<int>(2 * (level - kLowest))]; }
};

// Candidates for a group's scale: the peak becomes `first` + k · `step` times the lowest level, k < count; with
// `both_signs`, of the highest one too.
struct ScaleCandidates {
  float first, step;
  int count;
  bool both_signs;
};

template <class Levels, int kGroups, int kSize, int kLowSub, int kHighSub>
class ScaleFit {
 public:
  float scale;  // d, an f16
  int sub_scales[kGroups];
  uint8_t codes[kGroups * kSize];

  ScaleFit(const float* values, const float* importance, const ScaleCandidates& candidates)
      : block_(values, importance) {
    Lanes ideal[kColumns];
    for (int c = 0; c < kColumns; ++c) ideal[c] = search(c, candidates);
    choose(ideal);
  }

 private:
  using Block = GroupLanes<kGroups, kSize>;
  static constexpr int kColumns = Block::kColumns;
  static constexpr bool kSubScales = kLowSub != kHighSub;

  // Error of a column's groups, and the sums of the best common scale: Σ w x l, Σ w l².
  struct Sums {
    Lanes error{}, with_x{}, squares{};
  };

  struct Choice {
    float scale = 0;
    float error = std::numeric_limits<float>::infinity();
    Lanes subs[kColumns] = {};
  };

  // The scale of each group alone. With levels l, the best one is Σ w x l / Σ w l², and the error falls by
  // (Σ w x l)² / Σ w l².
  Lanes search(int column, const ScaleCandidates& candidates) const {
    const Lanes *x = block_.x[column], *w = block_.w[column];
    Lanes peak{};
    for (int i = 0; i < kSize; ++i) peak = select(absolute(x[i]) > absolute(peak), x[i], peak);
    const Lanes inverse_peak = invert(peak);
    Lanes best{}, best_gain{};
    const auto consider = [&](Lanes inverse) {
      Lanes with_x{}, squares{};
      for (int i = 0; i < kSize; ++i) {
        const Lanes level = Levels::nearest(x[i] * inverse);
        const Lanes weighted = w[i] * level;
        with_x += weighted * x[i];
        squares += weighted * level;
      }
      const Lanes fitted = with_x * invert(squares);
      const Lanes gain = fitted * with_x;
      const IntLanes better = gain > best_gain;
      best_gain = select(better, gain, best_gain);
      best = select(better, fitted, best);
    };
    // A lone group has a candidate in each lane.
    constexpr int kTogether = kGroups == 1 ? kLanes : 1;
    Lanes offset{};
    if constexpr (kGroups == 1) {
      for (int lane = 0; lane < kLanes; ++lane) offset[lane] = candidates.step * static_cast<float>(lane);
    }
    for (int k = 0; k < candidates.count; k += kTogether) {
      const Lanes factor = (offset + (candidates.first + candidates.step * static_cast<float>(k))) * inverse_peak;
      consider(factor * Levels::kLowest);
      if (candidates.both_signs) consider(factor * Levels::kHighest);
    }
    consider(invert(best));
    if constexpr (kGroups == 1) {
      int lane = 0;
      for (int i = 1; i < kLanes; ++i) {
        if (best_gain[i] > best_gain[lane]) lane = i;
      }
      best = broadcast(best[lane]);
    }
    return best;
  }

  Sums measure(int column, Lanes step, Lanes sub) const {
    const Lanes *x = block_.x[column], *w = block_.w[column];
    const Lanes inverse = invert(step);
    Sums sums;
    for (int i = 0; i < kSize; ++i) {
      const Lanes level = Levels::nearest(x[i] * inverse);
      const Lanes weighted = w[i] * level;
      const Lanes rest = x[i] - step * level;
      sums.error += w[i] * rest * rest;
      sums.with_x += weighted * x[i];
      sums.squares += weighted * level;
    }
    sums.with_x *= sub;
    sums.squares *= sub * sub;
    return sums;
  }

  // Rounds the groups' scales to multiples of a common one, then fits that one to the rounded twice.
  void choose(const Lanes* ideal) {
    float peak = 0;
    for (int c = 0; c < kColumns; ++c) {
      const float candidate = signed_peak(ideal[c]);
      if (std::fabs(candidate) > std::fabs(peak)) peak = candidate;
    }
    constexpr int kRounds = 3;
    Choice best;
    float next = kSubScales ? peak / kLowSub : peak;
    for (int round = 0; round < kRounds; ++round) {
      Choice choice;
      choice.scale = round_to_half(next, block_.unit);
      const float fitted = assign(ideal, best, choice);
      if (!(choice.error < best.error)) break;
      best = choice;
      next = fitted;
    }
    write(best);
  }

  // Picks the sub-scales for a scale, or takes the ones of `previous`. Returns the scale that fits them best.
  float assign(const Lanes* ideal, const Choice& previous, Choice& choice) const {
    const bool first = previous.scale == 0;
    const float inverse = choice.scale != 0 ? 1 / choice.scale : 0;
    Sums total;
    for (int c = 0; c < kColumns; ++c) {
      Lanes sub = broadcast(1);
      if constexpr (kSubScales)
        sub = first ? round_lanes(clamp(ideal[c] * inverse, kLowSub, kHighSub)) : previous.subs[c];
      Sums sums = measure(c, choice.scale * sub, sub);
      if constexpr (kSubScales) {
        const Lanes nearest = sub;
        for (const float offset : {-1.0f, 1.0f}) {
          if (!first) break;
          const Lanes other = clamp(nearest + offset, kLowSub, kHighSub);
          const Sums others = measure(c, choice.scale * other, other);
          const IntLanes better = others.error < sums.error;
          sub = select(better, other, sub);
          sums.error = select(better, others.error, sums.error);
          sums.with_x = select(better, others.with_x, sums.with_x);
          sums.squares = select(better, others.squares, sums.squares);
        }
      }
      choice.subs[c] = sub;
      total.error += sums.error;
      total.with_x += sums.with_x;
      total.squares += sums.squares;
    }
    choice.error = sum(total.error);
    const float squares = sum(total.squares);
    return squares > 0 ? sum(total.with_x) / squares : 0;
  }

  void write(const Choice& choice) {
    scale = choice.scale * block_.unit;
    for (int c = 0; c < kColumns; ++c) {
      const Lanes inverse = invert(choice.scale * choice.subs[c]);
      constexpr int kUsed = kGroups == 1 ? 1 : kLanes;
      for (int lane = 0; lane < kUsed; ++lane) sub_scales[c * kLanes + lane] = static_cast<int>(choice.subs[c][lane]);
      for (int i = 0; i < kSize; ++i) {
        const Lanes level = Levels::nearest(block_.x[c][i] * inverse);
        for (int lane = 0; lane < kUsed; ++lane) codes[(c * kLanes + lane) * kSize + i] = Levels::code(level[lane]);
      }
    }
  }

  Block block_;
};

}  // namespace gabbro::quant
