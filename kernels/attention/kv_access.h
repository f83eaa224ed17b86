// Addresses of a token's keys and values.
#pragma once

#include "kernels/attention/attention_scores.h"
#include "kernels/attention/kv_cache.h"

namespace gabbro::gpu::GABBRO_GPU {

// Whether the table knows the position; what it says may still be outside the cache.
GPU_FUNCTION inline bool in_table(const PageTable& table, const KvShape& kv, i32 sequence, i32 position) {
  return sequence >= 0 && sequence < table.sequences && position >= 0 && (position >> kv.page_bits) < table.columns;
}
GPU_FUNCTION inline i32 page_of(const PageTable& table, const KvShape& kv, i32 sequence, i32 position) {
  return table.pages[static_cast<i64>(sequence) * table.columns + (position >> kv.page_bits)];
}

// The first element of head `head` in its page, in elements of D·P; the same for the scales in elements of D/32·P.
GPU_FUNCTION inline i64 head_offset(const KvShape& kv, i32 page, i32 head) {
  return (static_cast<i64>(page) * kv.heads + head) * kv.dim * kv.page;
}

// Positions among the stored elements of a cache: bytes of two elements of u4, else elements.
template <KvType type>
GPU_FUNCTION inline i64 stored(i64 elements) {
  return type == KvType::kU4 ? elements / 2 : elements;
}
// The stored element of a head that has its element d.
template <KvType type>
GPU_FUNCTION inline i32 stored_row(i32 d) {
  if constexpr (type == KvType::kU4) return d / kScaleGroup * (kScaleGroup / 2) + d % (kScaleGroup / 2);
  return d;
}
// The shift of element d within its byte of u4, in bits.
GPU_FUNCTION inline u32 nibble_shift(i32 d) { return d % kScaleGroup < kScaleGroup / 2 ? 0 : 4; }

struct KeySlot {
  i64 element;  // of the first stored row; the next is kv.page further
  i64 scale;    // of the first 32; the next is kv.page further
};
template <KvType type = KvType::kF16>
GPU_FUNCTION inline KeySlot key_slot(const KvShape& kv, i32 page, i32 head, i32 slot) {
  const i64 offset = head_offset(kv, page, head);
  return {stored<type>(offset) + slot, offset / kScaleGroup + slot};
}
struct ValuePlace {
  i64 element;  // of the first stored row; the next follows
  i64 scale;
};
template <KvType type = KvType::kF16>
GPU_FUNCTION inline ValuePlace value_place(const KvShape& kv, i32 page, i32 head, i32 slot) {
  const i64 element = head_offset(kv, page, head) + static_cast<i64>(slot) * kv.dim;
  return {stored<type>(element), element / kScaleGroup};
}

// Element d of a value at the place.
template <KvType type>
GPU_FUNCTION inline float read_value(const KvSide& side, const ValuePlace& place, i32 d) {
  const i64 element = place.element + stored_row<type>(d);
  if constexpr (type == KvType::kF32) return static_cast<const float*>(side.data)[element];
  if constexpr (type == KvType::kBf16) return to_float(static_cast<const BFloat*>(side.data)[element]);
  if constexpr (type == KvType::kF16) return to_float(static_cast<const Half*>(side.data)[element]);
  const float scale = to_float(side.scale[place.scale + d / kScaleGroup]);
  if constexpr (type == KvType::kI8) return static_cast<float>(static_cast<const i8*>(side.data)[element]) * scale;
  const i32 code = static_cast<const u8*>(side.data)[element] >> nibble_shift(d) & 15;
  return static_cast<float>(code - 8) * scale;
}

// The first key that a token at `position` sees.
GPU_FUNCTION inline i32 first_key(const AttentionArgs& a, i32 position) {
  const i32 of_chunk = a.chunk > 0 ? position / a.chunk * a.chunk : 0;
  return a.window > 0 ? max_of(of_chunk, position + 1 - a.window) : of_chunk;
}

}  // namespace gabbro::gpu::GABBRO_GPU
