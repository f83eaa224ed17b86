// One side (keys or values) of the paged KV cache: addresses of a token's elements, and blocks of 16 tokens converted
// to f32. The layout is in docs/fused_ops.md. Page numbers out of range are clamped to the cache; positions are the
// caller's.
#pragma once

#include <bit>
#include <cstdint>

#include "backends/common/request.h"
#include "backends/cpu/simd/simd.h"
#include "src/base/half.h"

namespace gabbro::cpu::GABBRO_ISA {

inline constexpr int kScaleGroup = 32;  // elements of D that share a scale in an i8 cache

struct KvShape {
  int64_t pages = 0;
  int64_t heads = 0;   // G
  int64_t dim = 0;     // D
  int64_t page = 0;    // P
  int shift = 0;       // log2 P
  bool bytes = false;  // i8 with scales, else f16
};

// False where `cache` (and `scale`, null for f16) is not one. Keys are [pages, G, D, P], values [pages, G, P, D].
inline bool read_kv_shape(const abi::TensorView& cache, const abi::TensorView* scale, bool keys, KvShape& shape) {
  if (cache.rank != 4 || !is_contiguous(cache)) return false;
  if (cache.dtype != (scale == nullptr ? DType::f16 : DType::i8)) return false;
  const int page_axis = keys ? 3 : 2;
  shape = {.pages = cache.shape[0],
           .heads = cache.shape[1],
           .dim = cache.shape[keys ? 2 : 3],
           .page = cache.shape[page_axis],
           .bytes = scale != nullptr};
  if (shape.page < kLanes || !std::has_single_bit(static_cast<uint64_t>(shape.page))) return false;
  if (shape.pages < 1 || shape.heads < 1 || shape.dim < 1) return false;
  shape.shift = std::countr_zero(static_cast<uint64_t>(shape.page));
  if (scale == nullptr) return true;
  if (shape.dim % kScaleGroup != 0) return false;
  const int64_t groups = shape.dim / kScaleGroup;
  return keys ? has_shape(*scale, DType::f16, {shape.pages, shape.heads, groups, shape.page})
              : has_shape(*scale, DType::f16, {shape.pages, shape.heads, shape.page, groups});
}

inline bool same_kv(const KvShape& a, const KvShape& b) {
  return a.pages == b.pages && a.heads == b.heads && a.dim == b.dim && a.page == b.page && a.bytes == b.bytes;
}

// Sixteen tokens of one head, beginning at a multiple of 16.
struct KvBlock {
  const void* data;       // keys: element d of token j at d·P + j; values: at j·D + d
  const uint16_t* scale;  // keys: group i of token j at i·P + j; values: at j·(D/32) + i
};

inline KvBlock key_block(const KvShape& shape, const void* cache, const void* scale, int64_t page, int64_t head,
                         int64_t slot) {
  const int64_t at = (page * shape.heads + head) * shape.dim * shape.page + slot;
  if (!shape.bytes) return {static_cast<const uint16_t*>(cache) + at, nullptr};
  const int64_t group = (page * shape.heads + head) * (shape.dim / kScaleGroup) * shape.page + slot;
  return {static_cast<const int8_t*>(cache) + at, static_cast<const uint16_t*>(scale) + group};
}

inline KvBlock value_block(const KvShape& shape, const void* cache, const void* scale, int64_t page, int64_t head,
                           int64_t slot) {
  const int64_t at = ((page * shape.heads + head) * shape.page + slot) * shape.dim;
  if (!shape.bytes) return {static_cast<const uint16_t*>(cache) + at, nullptr};
  const int64_t group = ((page * shape.heads + head) * shape.page + slot) * (shape.dim / kScaleGroup);
  return {static_cast<const int8_t*>(cache) + at, static_cast<const uint16_t*>(scale) + group};
}

// out[d·stride + j] = element d of token j.
inline void convert_keys(const KvShape& shape, const KvBlock& block, float* out, int64_t stride) {
  if (!shape.bytes) {
    const auto* data = static_cast<const uint16_t*>(block.data);
    for (int64_t d = 0; d < shape.dim; ++d) store(out + d * stride, load_half(data + d * shape.page));
    return;
  }
  const auto* data = static_cast<const int8_t*>(block.data);
  for (int64_t d = 0; d < shape.dim; d += kScaleGroup) {
    const F32 scale = load_half(block.scale + d / kScaleGroup * shape.page);
    for (int64_t i = d; i < d + kScaleGroup; ++i)
      store(out + i * stride, to_f32(load_i8(data + i * shape.page)) * scale);
  }
}

// out[j·stride + d] = element d of token j, for the first `tokens` tokens; up to the next multiple of 16 zeros follow.
inline void convert_values(const KvShape& shape, const KvBlock& block, int tokens, float* out, int64_t stride) {
  if (!shape.bytes) {
    const int64_t whole = shape.dim / kLanes * kLanes;
    for (int j = 0; j < tokens; ++j) {
      const uint16_t* row = static_cast<const uint16_t*>(block.data) + j * shape.dim;
      float* to = out + j * stride;
      for (int64_t d = 0; d < whole; d += kLanes) store(to + d, load_half(row + d));
      if (whole == shape.dim) continue;
      uint16_t tail[kLanes] = {};
      for (int64_t d = whole; d < shape.dim; ++d) tail[d - whole] = row[d];
      store(to + whole, load_half(tail));
    }
    return;
  }
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

// Up to four adjacent blocks as operands of a register tile, converted on the fly (f16; D a multiple of 16). With each
// line the one that is `ahead` bytes after it is asked for, into the L2: the same of the next tile. In one burst they
// would wait for each other, since a core has some twenty misses under way.
struct HalfKeys {
  const KvBlock* blocks;
  int64_t page;
  int64_t ahead;
  F32 at(int64_t d, int j) const {
    const auto* from = static_cast<const uint16_t*>(blocks[j].data) + d * page;
    if (j % 2 == 0) __builtin_prefetch(reinterpret_cast<const char*>(from) + ahead, 0, 2);
    return load_half(from);
  }
};

struct HalfValues {
  const KvBlock* blocks;
  int64_t dim;
  int64_t column;
  int64_t ahead;
  F32 at(int64_t key, int j) const {
    const auto* block = static_cast<const uint16_t*>(blocks[key / kLanes].data);
    const auto* from = block + key % kLanes * dim + column + j * kLanes;
    if (j % 2 == 0) __builtin_prefetch(reinterpret_cast<const char*>(from) + ahead, 0, 2);
    return load_half(from);
  }
};

// The table of one batch: which page holds which tokens of a sequence.
struct PageTable {
  const int32_t* pages;  // [B, M]
  int64_t sequences;     // B
  int64_t columns;       // M

  // The page of `token` of a sequence; both within range.
  int64_t page(const KvShape& shape, int64_t sequence, int64_t token) const {
    const int64_t page = pages[sequence * columns + (token >> shape.shift)];
    return page < 0 ? 0 : page >= shape.pages ? shape.pages - 1 : page;
  }
  int64_t tokens(const KvShape& shape) const { return columns << shape.shift; }
};

}  // namespace gabbro::cpu::GABBRO_ISA
