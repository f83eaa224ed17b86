// One side (keys or values) of the paged KV cache: addresses of a token's elements, and f16 operands of products. The
// layout is in docs/design/fused_ops.md. Page numbers out of range are clamped to the cache; positions are the
// caller's.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "backends/common/request.h"
#include "backends/cpu/simd/simd.h"
#include "src/base/half.h"

namespace gabbro::cpu::GABBRO_ISA {

inline constexpr int kScaleGroup = 32;  // elements of D that share a scale in a cache of i8 or u8

struct KvShape {
  int64_t pages = 0;
  int64_t heads = 0;         // G
  int64_t dim = 0;           // D
  int64_t page = 0;          // P
  int shift = 0;             // log2 P
  DType dtype = DType::f16;  // f32, bf16, f16; with scales i8, or u8 of two elements each

  bool scaled() const { return dtype == DType::i8 || dtype == DType::u8; }
  int64_t rows() const { return dtype == DType::u8 ? dim / 2 : dim; }  // stored elements of a token's head
  int64_t element_bytes() const { return dtype == DType::f32 ? 4 : scaled() ? 1 : 2; }
};

// False where `cache` (and `scale`, null for plain elements) is not one. Keys are [pages, G, D, P], values
// [pages, G, P, D]; with u8 D/2 instead of D.
inline bool read_kv_shape(const abi::TensorView& cache, const abi::TensorView* scale, bool keys, KvShape& shape) {
  if (cache.rank != 4 || !is_contiguous(cache)) return false;
  const DType dtype = cache.dtype;
  const bool plain = dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
  if (scale == nullptr ? !plain : dtype != DType::i8 && dtype != DType::u8) return false;
  const int page_axis = keys ? 3 : 2;
  shape = {.pages = cache.shape[0],
           .heads = cache.shape[1],
           .dim = cache.shape[keys ? 2 : 3] * (dtype == DType::u8 ? 2 : 1),
           .page = cache.shape[page_axis],
           .dtype = dtype};
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
  return a.pages == b.pages && a.heads == b.heads && a.dim == b.dim && a.page == b.page && a.dtype == b.dtype;
}

// Sixteen tokens of one head, beginning at a multiple of 16.
struct KvBlock {
  const void* data;       // keys: stored element r of token j at r·P + j; values: at j·rows + r
  const uint16_t* scale;  // keys: group i of token j at i·P + j; values: at j·(D/32) + i
};

inline KvBlock kv_block(const KvShape& shape, const void* cache, const void* scale, int64_t element, int64_t group) {
  const void* data = static_cast<const std::byte*>(cache) + element * shape.element_bytes();
  return {data, shape.scaled() ? static_cast<const uint16_t*>(scale) + group : nullptr};
}

inline KvBlock key_block(const KvShape& shape, const void* cache, const void* scale, int64_t page, int64_t head,
                         int64_t slot) {
  const int64_t index = (page * shape.heads + head) * shape.page;
  return kv_block(shape, cache, scale, index * shape.rows() + slot, index * (shape.dim / kScaleGroup) + slot);
}

inline KvBlock value_block(const KvShape& shape, const void* cache, const void* scale, int64_t page, int64_t head,
                           int64_t slot) {
  const int64_t index = (page * shape.heads + head) * shape.page + slot;
  return kv_block(shape, cache, scale, index * shape.rows(), index * (shape.dim / kScaleGroup));
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
