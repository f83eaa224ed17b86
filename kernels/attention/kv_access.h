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

struct KeySlot {
  i64 element;  // of d = 0; the next d is kv.page further
  i64 scale;    // of the first 32; the next is kv.page further
};
GPU_FUNCTION inline KeySlot key_slot(const KvShape& kv, i32 page, i32 head, i32 slot) {
  const i64 offset = head_offset(kv, page, head);
  return {offset + slot, offset / kScaleGroup + slot};
}
struct ValuePlace {
  i64 element;  // of d = 0; the next d follows
  i64 scale;
};
GPU_FUNCTION inline ValuePlace value_place(const KvShape& kv, i32 page, i32 head, i32 slot) {
  const i64 element = head_offset(kv, page, head) + static_cast<i64>(slot) * kv.dim;
  return {element, element / kScaleGroup};
}

// Reads a cache of f16, or of i8 with scales.
template <bool scaled>
GPU_FUNCTION inline float read_kv(const KvSide& side, i64 element, i64 scale) {
  if constexpr (scaled)
    return static_cast<float>(static_cast<const i8*>(side.data)[element]) * to_float(side.scale[scale]);
  return to_float(static_cast<const Half*>(side.data)[element]);
}

// The first key that a token at `position` sees.
GPU_FUNCTION inline i32 first_key(const AttentionArgs& a, i32 position) {
  const i32 of_chunk = a.chunk > 0 ? position / a.chunk * a.chunk : 0;
  return a.window > 0 ? max_of(of_chunk, position + 1 - a.window) : of_chunk;
}

}  // namespace gabbro::gpu::GABBRO_GPU
