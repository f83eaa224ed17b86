#include "backends/cpu/kernels/linear_activations.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace gabbro::cpu::GABBRO_ISA {
namespace {

// The value of the largest magnitude, with its sign. It gets the code -128, which has no positive counterpart: the
// smaller steps take 1.6 % off the mean squared error of ±127.
float extreme_of(F32 low, F32 high) {
  const float highest = reduce_max(max(low, high));
  const float lowest = -reduce_max(max(zero_f32() - low, zero_f32() - high));
  return highest >= -lowest ? highest : lowest;
}

// The factor on the steps with which the rounded codes are nearest to the values in squared error: Σ x·q / Σ q². One
// degree of freedom in 32, so about 3 % off the mean squared error.
float best_stretch(F32 low, F32 high, F32 low_codes, F32 high_codes) {
  const float squares = reduce_sum(fma(low_codes, low_codes, high_codes * high_codes));
  return squares > 0 ? reduce_sum(fma(low, low_codes, high * high_codes)) / squares : 1.0f;
}

}  // namespace

void rms_norm_row(const float* x, const float* weight, float epsilon, int64_t columns, float* y) {
  F32 squares[4] = {zero_f32(), zero_f32(), zero_f32(), zero_f32()};
  const int64_t whole = columns / kLanes * kLanes;
  const int rest = static_cast<int>(columns - whole);
  for (int64_t k = 0; k < whole; k += kLanes) {
    const F32 value = load(x + k);
    F32& sum = squares[k / kLanes % 4];
    sum = fma(value, value, sum);
  }
  const F32 last = load_first(x + whole, rest);
  squares[0] = fma(last, last, squares[0]);
  const float sum = reduce_sum((squares[0] + squares[1]) + (squares[2] + squares[3]));
  const F32 factor = splat(1.0f / std::sqrt(sum / static_cast<float>(columns) + epsilon));
  for (int64_t k = 0; k < whole; k += kLanes) store(y + k, load(x + k) * factor * load(weight + k));
  store_first(y + whole, last * factor * load_first(weight + whole, rest), rest);
}

int64_t ActivationPlan::tile_bytes(int width) const {
  return quantised.empty() ? codes_at(width) : sums_at(width, static_cast<int>(quantised.size()));
}

void ActivationPlan::quantise_words(const float* x, int token, int width, char* tile) const {
  auto* codes = reinterpret_cast<int16_t*>(tile + words_at(width));
  auto* scales = reinterpret_cast<float*>(tile + word_scales_at(width));
  F32 probe = zero_f32();
  for (int64_t chunk = 0; chunk < columns / kChunk; ++chunk) {
    const F32 low = load(x + chunk * kChunk), high = load(x + chunk * kChunk + kLanes);
    probe = fma(low, zero_f32(), fma(high, zero_f32(), probe));
    const float peak = reduce_max(max(abs(low), abs(high)));
    const F32 inverse = splat(peak > kLeastWordPeak ? kWordLevels / peak : 0.0f);
    scales[chunk * width + token] = peak / kWordLevels;
    alignas(64) int16_t rounded[kChunk];
    store_i16(rounded, round_to_i32(low * inverse));
    store_i16(rounded + kLanes, round_to_i32(high * inverse));
    for (int q = 0; q < kChunk / 2; ++q) {
      std::memcpy(codes + ((chunk * kChunk / 2 + q) * width + token) * 2, rounded + q * 2, 4);
    }
  }
  // As below: a token that is not finite becomes NaNs.
  if (const float sound = reduce_sum(probe); sound != 0) {
    for (int64_t chunk = 0; chunk < columns / kChunk; ++chunk) scales[chunk * width + token] = sound;
  }
}

void ActivationPlan::quantise(const float* x, int token, int width, char* tile) const {
  auto* codes = reinterpret_cast<int8_t*>(tile + codes_at(width));
  auto* scales = reinterpret_cast<float*>(tile + scales_at(width));
  // A format whose zero is code 0 and that has no minimum starts its dot products from 0.
  const bool sums_are_read =
      std::any_of(quantised.begin(), quantised.end(), [](const GroupSums& s) { return s.minimum || s.zero != 0; });
  const float level = narrow ? 127.0f : -128.0f;  // the code of the extreme
  F32 probe = zero_f32();
  for (int64_t chunk = 0; chunk < columns / kChunk; ++chunk) {
    const F32 low = load(x + chunk * kChunk), high = load(x + chunk * kChunk + kLanes);
    probe = fma(low, zero_f32(), fma(high, zero_f32(), probe));
    const float extreme = narrow ? reduce_max(max(abs(low), abs(high))) : extreme_of(low, high);
    // Below 2⁻¹²⁰ the reciprocal would overflow; such a group counts as zeros.
    const F32 inverse = splat(std::fabs(extreme) > 0x1p-120f ? level / extreme : 0.0f);
    const F32 low_steps = low * inverse, high_steps = high * inverse;
    const I32 low_codes = round_to_i32(min(low_steps, splat(127.0f)));
    const I32 high_codes = round_to_i32(min(high_steps, splat(127.0f)));
    const float scale = extreme / level * best_stretch(low_steps, high_steps, to_f32(low_codes), to_f32(high_codes));
    scales[chunk * width + token] = scale;
    if (width == 1) {
      store_i8(codes + chunk * kChunk, low_codes);
      store_i8(codes + chunk * kChunk + kLanes, high_codes);
    } else {
      alignas(64) int8_t bytes[kChunk];
      store_i8(bytes, low_codes);
      store_i8(bytes + kLanes, high_codes);
      for (int q = 0; q < 8; ++q) {
        std::memcpy(codes + ((chunk * 8 + q) * width + token) * 4, bytes + q * 4, 4);
      }
    }
    if (!sums_are_read) continue;
    const int32_t sums[2] = {reduce_sum(low_codes), reduce_sum(high_codes)};
    for (size_t v = 0; v < quantised.size(); ++v) {
      const GroupSums& wanted = quantised[v];
      char* base = tile + sums_at(width, static_cast<int>(v));
      const int groups = kChunk / wanted.group;
      for (int g = 0; g < groups; ++g) {
        const int32_t sum = groups == 1 ? sums[0] + sums[1] : sums[g];
        const int64_t at = ((chunk * groups + g) * width + token) * 4;
        const float scaled = scale * static_cast<float>(sum);
        const auto start = static_cast<int32_t>(-static_cast<int64_t>(wanted.zero) * sum);
        std::memcpy(base + at, wanted.minimum ? static_cast<const void*>(&scaled) : &start, 4);
      }
    }
  }
  // A token with an infinity or a NaN has no codes; NaN scales make NaNs of its results.
  if (const float sound = reduce_sum(probe); sound != 0) {
    for (int64_t chunk = 0; chunk < columns / kChunk; ++chunk) scales[chunk * width + token] = sound;
  }
}

void ActivationPlan::prepare(const float* x, const float* norm_weight, int used, int width, char* target,
                             float* row) const {
  if (used < width) std::memset(target, 0, static_cast<size_t>(tile_bytes(width)));
  for (int token = 0; token < used; ++token) {
    const float* values = x + token * columns;
    if (norm) {
      rms_norm_row(values, norm_weight, epsilon, columns, row);
      values = row;
    }
    if (words) quantise_words(values, token, width, target);
    if (!quantised.empty()) quantise(values, token, width, target);
    auto* tile = reinterpret_cast<float*>(target);
    if (rows) std::copy_n(values, columns, tile + token * columns);
    if (plain) {
      for (int64_t k = 0; k < columns; ++k) tile[k * width + token] = values[k];
    }
  }
}

}  // namespace gabbro::cpu::GABBRO_ISA
