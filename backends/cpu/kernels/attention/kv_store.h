// Writing one token's keys or values into the paged cache: rounding to its plain type, or to 8 or 4 bits with one scale
// per 32 elements.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "backends/cpu/kernels/attention/kv_cache.h"

namespace gabbro::cpu::GABBRO_ISA {

struct KvTarget {
  void* cache;
  void* scale;  // null for plain elements
};

// x / scale to the nearest integer in ±127; NaN gives -127.
inline int8_t quantized(float x, float inverse_scale) {
  const float scaled = x * inverse_scale;
  if (!(scaled > -127.0f)) return -127;
  return static_cast<int8_t>(std::nearbyint(std::min(scaled, 127.0f)));
}

// x / scale + 8 to the nearest integer in 0 to 15; NaN gives 0.
inline uint8_t quantized_to_nibble(float x, float inverse_scale) {
  const float scaled = x * inverse_scale + 8.5f;
  return scaled > 0 ? static_cast<uint8_t>(std::min(scaled, 15.0f)) : 0;
}

template <DType dtype>
void store_plain_head(const KvShape& shape, const float* x, void* data, int64_t stride) {
  using Stored = std::conditional_t<dtype == DType::f32, float, uint16_t>;
  const auto store16 = [](Stored* to, F32 values) {
    if constexpr (dtype == DType::f32) store(to, values);
    if constexpr (dtype == DType::bf16) store_bfloat(to, values);
    if constexpr (dtype == DType::f16) store_half(to, values);
  };
  const auto stored = [](float value) -> Stored {
    if constexpr (dtype == DType::f32) return value;
    if constexpr (dtype == DType::bf16) return float_to_bfloat_bits(value);
    if constexpr (dtype == DType::f16) return float_to_half_bits(value);
  };
  auto* to = static_cast<Stored*>(data);
  Stored lanes[kLanes];
  int64_t d = 0;
  for (; d + kLanes <= shape.dim; d += kLanes) {
    if (stride == 1) {
      store16(to + d, load(x + d));
      continue;
    }
    store16(lanes, load(x + d));
    for (int j = 0; j < kLanes; ++j) to[(d + j) * stride] = lanes[j];
  }
  for (; d < shape.dim; ++d) to[d * stride] = stored(x[d]);
}

inline void store_i8_head(const KvShape& shape, const float* x, void* data, uint16_t* scale, int64_t stride) {
  auto* to = static_cast<int8_t*>(data);
  for (int64_t d = 0; d < shape.dim; d += kScaleGroup) {
    const float largest = reduce_max(max(abs(load(x + d)), abs(load(x + d + kLanes))));
    const uint16_t bits = float_to_half_bits(largest / 127);
    const float rounded = half_bits_to_float(bits);  // what the reader will multiply by
    scale[d / kScaleGroup * stride] = bits;
    const float inverse = rounded > 0 ? 1 / rounded : 0;
    for (int64_t i = d; i < d + kScaleGroup; ++i) to[i * stride] = quantized(x[i], inverse);
  }
}

// The element of the largest size has the code 0, which is -8 times the scale (Q4_0 of GGUF).
inline void store_nibble_head(const KvShape& shape, const float* x, void* data, uint16_t* scale, int64_t stride) {
  auto* to = static_cast<uint8_t*>(data);
  constexpr int64_t kHalf = kScaleGroup / 2;
  for (int64_t d = 0; d < shape.dim; d += kScaleGroup) {
    const F32 first = load(x + d), second = load(x + d + kLanes);
    const float high = reduce_max(max(first, second)), low = -reduce_max(-min(first, second));
    const uint16_t bits = float_to_half_bits((high >= -low ? high : low) / -8);
    const float rounded = half_bits_to_float(bits);  // what the reader will multiply by
    scale[d / kScaleGroup * stride] = bits;
    const float inverse = rounded != 0 ? 1 / rounded : 0;
    for (int64_t i = 0; i < kHalf; ++i) {
      const int code = quantized_to_nibble(x[d + i], inverse) | quantized_to_nibble(x[d + kHalf + i], inverse) << 4;
      to[(d / 2 + i) * stride] = static_cast<uint8_t>(code);
    }
  }
}

// One head: stored element r goes to data[r · stride], and the scale of group i to scale[i · stride].
inline void store_head(const KvShape& shape, const float* x, void* data, uint16_t* scale, int64_t stride) {
  switch (shape.dtype) {
    case DType::f32:
      return store_plain_head<DType::f32>(shape, x, data, stride);
    case DType::bf16:
      return store_plain_head<DType::bf16>(shape, x, data, stride);
    case DType::i8:
      return store_i8_head(shape, x, data, scale, stride);
    case DType::u8:
      return store_nibble_head(shape, x, data, scale, stride);
    default:
      return store_plain_head<DType::f16>(shape, x, data, stride);
  }
}

// A token's slot in the cache.
struct CacheSlot {
  int64_t page;
  int64_t token;  // in the page
};

// Nothing if the sequence, the position or its page is out of range: such a token is padding.
inline std::optional<CacheSlot> slot_of(const KvShape& shape, const PageTable& table, int64_t sequence,
                                        int64_t position) {
  if (sequence < 0 || sequence >= table.sequences || position < 0 || position >= table.tokens(shape)) return {};
  const int64_t page = table.pages[sequence * table.columns + (position >> shape.shift)];
  if (page < 0 || page >= shape.pages) return {};
  return CacheSlot{.page = page, .token = position & (shape.page - 1)};
}

// Keys or values of all heads of one token; head h is at x + h · head_stride.
inline void store_token(const KvShape& shape, const KvTarget& target, CacheSlot slot, bool keys, const float* x,
                        int64_t head_stride) {
  for (int64_t head = 0; head < shape.heads; ++head) {
    const KvBlock block = keys ? key_block(shape, target.cache, target.scale, slot.page, head, slot.token)
                               : value_block(shape, target.cache, target.scale, slot.page, head, slot.token);
    store_head(shape, x + head * head_stride, const_cast<void*>(block.data), const_cast<uint16_t*>(block.scale),
               keys ? shape.page : 1);
  }
}

}  // namespace gabbro::cpu::GABBRO_ISA
