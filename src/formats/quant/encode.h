// Common to the encoders: a block scaled for a search, its groups in lanes, rounding of f16 scales. They minimize
//   Σ w · (value - decoded value)²,  w = the column's importance, or 1.
// Private to this folder.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "src/base/half.h"
#include "src/formats/quant/lanes.h"

namespace gabbro::quant {

// A block's values divided by `unit`, a power of two that brings their peak into [1, 2), so that no search overflows.
// Weights have the mean 1.
template <int kCount>
struct ScaledBlock {
  alignas(16) float values[kCount];
  alignas(16) float weights[kCount];
  float unit;
};

// Values that are not finite: NaN counts as 0, an infinity as the largest float. Importance that is negative or NaN
// counts as 0, and all of it zero as none.
template <int kCount>
void scale_block(const float* values, const float* importance, ScaledBlock<kCount>& out) {
  constexpr float kMax = std::numeric_limits<float>::max();
  Lanes peaks{};
  for (int i = 0; i < kCount; i += kLanes) {
    Lanes lanes = load_lanes(values + i);
    lanes = select(lanes == lanes, lanes, Lanes{});
    lanes = clamp(lanes, -kMax, kMax);
    peaks = max(absolute(lanes), peaks);
    std::memcpy(out.values + i, &lanes, sizeof lanes);
  }
  float peak = 0;
  for (int i = 0; i < kLanes; ++i) peak = std::max(peak, peaks[i]);
  const int exponent = static_cast<int>(std::bit_cast<uint32_t>(peak) >> 23) - 127;
  out.unit = peak > 0 ? std::ldexp(1.0f, std::clamp(exponent, -120, 120)) : 1.0f;
  const float inverse = 1 / out.unit;
  for (float& value : out.values) value *= inverse;

  double total = 0;
  if (importance != nullptr) {
    for (int i = 0; i < kCount; ++i) {
      out.weights[i] = importance[i] > 0 ? std::min(importance[i], kMax) : 0.0f;
      total += out.weights[i];
    }
  }
  if (total == 0) {
    std::fill_n(out.weights, kCount, 1.0f);
  } else {
    // A millionth for all, so that columns that were never active get values too.
    for (float& weight : out.weights) weight = static_cast<float>(weight * (kCount / total) + 1e-6);
  }
}

// Whether any weight counts.
inline bool is_weighted(const float* importance, int count) {
  return importance != nullptr && std::any_of(importance, importance + count, [](float weight) { return weight > 0; });
}

// Columns of four groups: entry [c][i] is element i of groups 4c to 4c + 3. A lone group fills all lanes.
template <int kGroups, int kSize>
struct GroupLanes {
  static constexpr int kColumns = kGroups == 1 ? 1 : kGroups / kLanes;
  Lanes x[kColumns][kSize];
  Lanes w[kColumns][kSize];
  float unit;

  GroupLanes(const float* values, const float* importance) {
    ScaledBlock<kGroups * kSize> block;
    scale_block(values, importance, block);
    unit = block.unit;
    for (int c = 0; c < kColumns; ++c) {
      for (int i = 0; i < kSize; ++i) {
        for (int lane = 0; lane < kLanes; ++lane) {
          const int from = (kGroups == 1 ? 0 : (c * kLanes + lane) * kSize) + i;
          x[c][i][lane] = block.values[from];
          w[c][i][lane] = block.weights[from];
        }
      }
    }
  }
};

// The nearest value that an f16 has, in the block's unit; finite.
inline float round_to_half(float scale, float unit) {
  const float largest = 65504;
  const float bounded = std::clamp(scale * unit, -largest, largest);
  return half_bits_to_float(float_to_half_bits(bounded)) / unit;
}

// The lane farthest from zero.
inline float signed_peak(Lanes lanes) {
  float peak = 0;
  for (int i = 0; i < kLanes; ++i) {
    if (std::fabs(lanes[i]) > std::fabs(peak)) peak = lanes[i];
  }
  return peak;
}

}  // namespace gabbro::quant
