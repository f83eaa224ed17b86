#include "backends/cpu/kernels/linear/linear_activations.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace gabbro::cpu::GABBRO_ISA {
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

void ActivationPlan::quantize(const float* x, int token, int width, Columns part, char* tile) const {
  auto* codes = reinterpret_cast<int16_t*>(tile + words_at(width));
  auto* scales = reinterpret_cast<float*>(tile + scales_at(width));
  F32 probe = zero_f32();
  const int64_t begin = part.begin / kChunk, end = part.end / kChunk;
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    const F32 low = load(x + chunk * kChunk), high = load(x + chunk * kChunk + kLanes);
    probe = fma(low, zero_f32(), fma(high, zero_f32(), probe));
    const float peak = reduce_max(max(abs(low), abs(high)));
    const F32 inverse = splat(peak > kLeastWordPeak ? kWordLevels / peak : 0.0f);
    const float scale = peak / kWordLevels;
    scales[chunk * width + token] = scale;
    const I32 low_codes = round_to_i32(low * inverse), high_codes = round_to_i32(high * inverse);
    alignas(64) int16_t dealt[kChunk];
    int16_t* const to = width == 1 ? codes + chunk * kChunk : dealt;
    store_i16_dealt(to, low_codes);
    store_i16_dealt(to + kLanes, high_codes);
    if (width > 1) {
      for (int pair = 0; pair < kChunk / 2; ++pair) {
        std::memcpy(codes + ((chunk * kChunk / 2 + pair) * width + token) * 2, dealt + pair * 2, 4);
      }
    }
    if (!sums.empty()) {
      add_sums({.low = reduce_sum(low_codes), .high = reduce_sum(high_codes), .scale = scale}, chunk, token, width,
               tile);
    }
  }
  // A token with an infinity or a NaN has no codes; NaN scales make NaNs of its results.
  if (const float sound = reduce_sum(probe); sound != 0) {
    for (int64_t chunk = begin; chunk < end; ++chunk) scales[chunk * width + token] = sound;
  }
}

void ActivationPlan::add_sums(const ChunkSums& chunk_sums, int64_t chunk, int token, int width, char* tile) const {
  const auto [low, high, scale] = chunk_sums;
  for (size_t v = 0; v < sums.size(); ++v) {
    const GroupSums& wanted = sums[v];
    char* base = tile + sums_at(width, static_cast<int>(v));
    const int groups = kChunk / wanted.group;
    for (int g = 0; g < groups; ++g) {
      const int32_t sum = groups == 1 ? low + high : g == 0 ? low : high;
      const int64_t at = ((chunk * groups + g) * width + token) * 4;
      const float scaled = scale * static_cast<float>(sum);
      const auto start = static_cast<int32_t>(-static_cast<int64_t>(wanted.zero) * sum);
      std::memcpy(base + at, wanted.minimum ? static_cast<const void*>(&scaled) : &start, 4);
    }
  }
}

void ActivationPlan::prepare(const Tokens& tokens, Columns part, char* target, float* row) const {
  const auto [x, norm_weight, used, width] = tokens;
  for (int token = 0; token < width; ++token) {
    const float* values = x + token * columns;
    if (token >= used) {
      if (token == used) std::fill_n(row, columns, 0.0f);
      values = row;
    } else if (norm) {
      rms_norm_row(values, norm_weight, epsilon, columns, row);
      values = row;
    }
    if (words) quantize(values, token, width, part, target);
    auto* tile = reinterpret_cast<float*>(target);
    if (rows) std::copy(values + part.begin, values + part.end, tile + token * columns + part.begin);
    if (plain) {
      for (int64_t k = part.begin; k < part.end; ++k) tile[k * width + token] = values[k];
    }
  }
}

}  // namespace gabbro::cpu::GABBRO_ISA
