// Blocks of 16 tokens of the paged KV cache, converted to f32.
#pragma once

#include <algorithm>
#include <type_traits>

#include "backends/cpu/kernels/attention/kv_cache.h"

namespace gabbro::cpu::GABBRO_ISA {

// Elements of a plain cache.
template <DType dtype>
struct PlainElements {
  using Stored = std::conditional_t<dtype == DType::f32, float, uint16_t>;
  static F32 load16(const Stored* p) {
    if constexpr (dtype == DType::f32) return load(p);
    if constexpr (dtype == DType::bf16) return load_bfloat(p);
    if constexpr (dtype == DType::f16) return load_half(p);
  }
};

// Two elements in a byte: the low four bits are element i of a group of 32, the high ones element i + 16; the code 8 is
// zero (Q4_0 of GGUF).
struct NibblePair {
  F32 low, high;
};
inline NibblePair load_nibbles(const uint8_t* p) {
  const F32 both = to_f32(load_u8(p));
  const F32 high = floor(both * splat(1.0f / 16));
  return {fma(high, splat(-16.0f), both) - splat(8.0f), high - splat(8.0f)};
}

template <DType dtype>
void convert_plain_keys(const KvShape& shape, const void* block, float* out, int64_t stride) {
  using Elements = PlainElements<dtype>;
  const auto* data = static_cast<const typename Elements::Stored*>(block);
  for (int64_t d = 0; d < shape.dim; ++d) store(out + d * stride, Elements::load16(data + d * shape.page));
}

inline void convert_i8_keys(const KvShape& shape, const KvBlock& block, float* out, int64_t stride) {
  const auto* data = static_cast<const int8_t*>(block.data);
  for (int64_t d = 0; d < shape.dim; d += kScaleGroup) {
    const F32 scale = load_half(block.scale + d / kScaleGroup * shape.page);
    for (int64_t i = d; i < d + kScaleGroup; ++i)
      store(out + i * stride, to_f32(load_i8(data + i * shape.page)) * scale);
  }
}

inline void convert_nibble_keys(const KvShape& shape, const KvBlock& block, float* out, int64_t stride) {
  const auto* data = static_cast<const uint8_t*>(block.data);
  constexpr int64_t kHalf = kScaleGroup / 2;
  for (int64_t d = 0; d < shape.dim; d += kScaleGroup) {
    const F32 scale = load_half(block.scale + d / kScaleGroup * shape.page);
    for (int64_t i = 0; i < kHalf; ++i) {
      const NibblePair codes = load_nibbles(data + (d / 2 + i) * shape.page);
      store(out + (d + i) * stride, codes.low * scale);
      store(out + (d + kHalf + i) * stride, codes.high * scale);
    }
  }
}

// out[d·stride + j] = element d of token j.
inline void convert_keys(const KvShape& shape, const KvBlock& block, float* out, int64_t stride) {
  switch (shape.dtype) {
    case DType::f32:
      return convert_plain_keys<DType::f32>(shape, block.data, out, stride);
    case DType::bf16:
      return convert_plain_keys<DType::bf16>(shape, block.data, out, stride);
    case DType::i8:
      return convert_i8_keys(shape, block, out, stride);
    case DType::u8:
      return convert_nibble_keys(shape, block, out, stride);
    default:
      return convert_plain_keys<DType::f16>(shape, block.data, out, stride);
  }
}

template <DType dtype>
void convert_plain_values(const KvShape& shape, const void* block, int tokens, float* out, int64_t stride) {
  using Elements = PlainElements<dtype>;
  using Stored = typename Elements::Stored;
  const int64_t whole = shape.dim / kLanes * kLanes;
  for (int j = 0; j < tokens; ++j) {
    const Stored* row = static_cast<const Stored*>(block) + j * shape.dim;
    float* to = out + j * stride;
    for (int64_t d = 0; d < whole; d += kLanes) store(to + d, Elements::load16(row + d));
    if (whole == shape.dim) continue;
    Stored tail[kLanes] = {};
    std::copy(row + whole, row + shape.dim, tail);
    store(to + whole, Elements::load16(tail));
  }
}

inline void convert_i8_values(const KvShape& shape, const KvBlock& block, int tokens, float* out, int64_t stride) {
  const int64_t groups = shape.dim / kScaleGroup;
  for (int j = 0; j < tokens; ++j) {
    const int8_t* row = static_cast<const int8_t*>(block.data) + j * shape.dim;
    for (int64_t group = 0; group < groups; ++group) {
      const F32 scale = splat(half_bits_to_float(block.scale[j * groups + group]));
      for (int64_t d = group * kScaleGroup; d < (group + 1) * kScaleGroup; d += kLanes) {
        store(out + j * stride + d, to_f32(load_i8(row + d)) * scale);
      }
    }
  }
}

inline void convert_nibble_values(const KvShape& shape, const KvBlock& block, int tokens, float* out, int64_t stride) {
  static_assert(kScaleGroup == 2 * kLanes);
  const int64_t groups = shape.dim / kScaleGroup;
  for (int j = 0; j < tokens; ++j) {
    const uint8_t* row = static_cast<const uint8_t*>(block.data) + j * shape.rows();
    for (int64_t group = 0; group < groups; ++group) {
      const F32 scale = splat(half_bits_to_float(block.scale[j * groups + group]));
      const NibblePair codes = load_nibbles(row + group * kLanes);
      store(out + j * stride + group * kScaleGroup, codes.low * scale);
      store(out + j * stride + group * kScaleGroup + kLanes, codes.high * scale);
    }
  }
}

// out[j·stride + d] = element d of token j, for the first `tokens` tokens; up to the next multiple of 16 zeros follow.
inline void convert_values(const KvShape& shape, const KvBlock& block, int tokens, float* out, int64_t stride) {
  switch (shape.dtype) {
    case DType::f32:
      return convert_plain_values<DType::f32>(shape, block.data, tokens, out, stride);
    case DType::bf16:
      return convert_plain_values<DType::bf16>(shape, block.data, tokens, out, stride);
    case DType::i8:
      return convert_i8_values(shape, block, tokens, out, stride);
    case DType::u8:
      return convert_nibble_values(shape, block, tokens, out, stride);
    default:
      return convert_plain_values<DType::f16>(shape, block.data, tokens, out, stride);
  }
}

}  // namespace gabbro::cpu::GABBRO_ISA
