// Common code of the attention kernels for few tokens: a block has a token, some heads that share a KV head, and a
// split of the keys; the last block of a token and its heads merges the splits.
#pragma once

#include "kernels/attention/rope.h"

namespace gabbro::gpu::GABBRO_GPU {

// The heads that the block is for.
struct BlockHeads {
  i32 kv_head, first, count;
};
GPU_FUNCTION inline BlockHeads block_heads(const AttentionArgs& a) {
  const i32 y = static_cast<i32>(block_index().y), kv_head = a.parts == 1 ? y : y / a.parts;
  const i32 begin = (y - kv_head * a.parts) * a.part_heads;
  return {kv_head, kv_head * a.group + begin, min_of(a.part_heads, a.group - begin)};
}

GPU_FUNCTION inline const float* head_of(const HeadsView& view, i32 token, i32 head) {
  return view.data + token * view.token_stride + head * view.head_stride;
}

// The keys that a token attends to, and how many splits they make, of `least_keys` keys or a multiple of it. They begin
// at multiples of `aligned`, so the first of a share may be some that do not count.
struct Keys {
  i32 first, end, base, split, splits;
};
template <i32 least_keys, i32 aligned>
GPU_FUNCTION inline Keys keys_of(const AttentionArgs& a, i32 position, i32 end) {
  Keys keys;
  keys.first = first_key(a, position);
  keys.end = end;
  keys.base = keys.first & ~(aligned - 1);
  const i32 least = max_of(1, (end - keys.base + least_keys - 1) / least_keys);  // as many splits of the least size
  const i32 each = a.splits == 1 ? least : (least + a.splits - 1) / a.splits;
  keys.split = each * least_keys;
  keys.splits = a.splits == 1 ? 1 : (least + each - 1) / each;
  return keys;
}

// Keys of a token at `position` of a sequence with keys up to `end` in the cache; none if the table
// does not know the position.
template <i32 least_keys, i32 aligned>
GPU_FUNCTION inline Keys known_keys(const AttentionArgs& a, bool known, i32 position, i32 end) {
  return known ? keys_of<least_keys, aligned>(a, position, end) : keys_of<least_keys, aligned>(a, 0, 0);
}

// Writes element d of the token's own key and value down, for later launches, by one of the blocks that share a KV
// head.
template <KvType type>
GPU_FUNCTION inline void write_fresh(const AttentionArgs& a, const BlockHeads& heads, i32 sequence, i32 position, i32 d,
                                     const KvElement& key, const KvElement& value) {
  if (heads.first != heads.kv_head * a.group || block_index().z != 0) return;
  const i32 page = page_of(a.table, a.kv, sequence, position), slot = position & (a.kv.page - 1);
  if (page < 0 || page >= a.kv.pages) return;
  store_key<type>(a.keys, a.kv, key_slot<type>(a.kv, page, heads.kv_head, slot), d, key);
  store_value<type>(a.values, value_place<type>(a.kv, page, heads.kv_head, slot), d, value);
}

// Prefetches a head's keys and values of a page, `offset` bytes past the first of both.
GPU_FUNCTION inline void ask_for_page(const AttentionArgs& a, i64 offset, i32 bytes) {
  constexpr i32 kLine = 128;
  const i32 step = static_cast<i32>(block_size()) * kLine;
  for (i32 at = static_cast<i32>(thread_index()) * kLine; at < bytes; at += step) {
    prefetch(static_cast<const u8*>(a.keys.data) + offset + at);
    prefetch(static_cast<const u8*>(a.values.data) + offset + at);
  }
}

// Has the first `count` keys of the block's share brought nearer. While the launch ahead still runs, the position may
// be an old one: then these are other pages of the cache, or none.
template <i32 least_keys, i32 aligned>
GPU_FUNCTION inline void ask_for_keys(const AttentionArgs& a, i32 count, i32 element_bytes) {
  const i32 sequence = peek(a.sequence + block_index().x), position = peek(a.positions + block_index().x);
  if (!in_table(a.table, a.kv, sequence, position)) return;
  const Keys keys = keys_of<least_keys, aligned>(a, position, position);
  const i32 begin = keys.base + static_cast<i32>(block_index().z) * keys.split;
  const i32 bytes = a.kv.dim * a.kv.page * element_bytes, kv_head = block_heads(a).kv_head;
  for (i32 key = begin; key < min_of(keys.end, begin + count); key += a.kv.page) {
    const i32 page = peek(a.table.pages + static_cast<i64>(sequence) * a.table.columns + (key >> a.kv.page_bits));
    if (page < 0 || page >= a.kv.pages) continue;
    const i64 offset = head_offset(a.kv, page, kv_head) * element_bytes;
    ask_for_page(a, offset, bytes);
  }
}

// Element d of a head's result, `row` of them all: the sum of weighted values, which is divided by that of the weights
// where there is no other share.
GPU_FUNCTION inline void store_split(const AttentionArgs& a, i64 row, i32 splits, i32 d, float value, float maximum,
                                     float total) {
  if (splits == 1) {
    a.y[row * a.kv.dim + d] = a.sinks == nullptr ? (total > 0 ? value / total : 0)
                                                 : value * final_factor(a.sinks, row % a.q.heads, maximum, total);
    return;
  }
  float* partial = a.partials + (row * a.splits + block_index().z) * partial_floats(a.kv.dim);
  partial[d] = value;
  if (d != 0) return;
  partial[a.kv.dim] = maximum;
  partial[a.kv.dim + 1] = total;
}

// The last block of a token and its heads to come here puts the splits together, in their order.
template <int max_dim, int max_heads, int threads>
GPU_FUNCTION inline void merge_splits(const AttentionArgs& a, i64 row, const BlockHeads& heads, i32 splits) {
  GPU_SHARED(u32, arrived, 1);
  GPU_SHARED(float, factors, max_heads* kMaxSplits);  // of a head's splits
  release_block();
  u32* counter = a.arrived + block_index().x * grid_size().y + block_index().y;
  if (thread_index() == 0) {
    arrived[0] = atomic_increment(counter);
    acquire_for_block();
  }
  barrier();
  if (arrived[0] + 1 < static_cast<u32>(splits)) return;
  acquire();
  if (thread_index() == 0) *counter = 0;  // for the next launch
  const i32 dim = a.kv.dim, floats = partial_floats(dim);
  constexpr i32 kWaves = threads / static_cast<i32>(kWave);
  for (i32 head = static_cast<i32>(wave_index()); head < heads.count; head += kWaves) {
    const float* partials = a.partials + (row + head) * a.splits * floats + dim;
    constexpr int kOwn = kMaxSplits / static_cast<int>(kWave);  // splits of a lane
    float maxima[kOwn], sums[kOwn], highest = kNoMaximum, total = 0;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const i32 share = i * static_cast<i32>(kWave) + static_cast<i32>(lane());
      maxima[i] = share < splits ? load_shared_result(partials + share * floats) : kNoMaximum;
      sums[i] = share < splits ? load_shared_result(partials + share * floats + 1) : 0;
      highest = max_of(highest, maxima[i]);
    }
    highest = wave_max(highest);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) total += exp(maxima[i] - highest) * sums[i];
    total = wave_sum(total);
    const float whole = final_factor(a.sinks, (row + head) % a.q.heads, highest, total);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      factors[head * kMaxSplits + i * static_cast<i32>(kWave) + static_cast<i32>(lane())] =
          exp(maxima[i] - highest) * whole;
    }
  }
  barrier();
  constexpr i32 kPairs = max_dim / 2;
  for (i32 i = static_cast<i32>(thread_index()); i < heads.count * kPairs; i += threads) {
    const i32 h = i / kPairs, d = i % kPairs * 2;
    if (d >= dim) continue;
    const float* partials = a.partials + (row + h) * a.splits * floats + d;
    FloatPair value = {0, 0};
#pragma unroll 16
    for (i32 s = 0; s < splits; ++s) {
      const float factor = factors[h * kMaxSplits + s];
      const FloatPair partial = load_shared_result(reinterpret_cast<const FloatPair*>(partials + s * floats));
      value = {fma(factor, partial.a, value.a), fma(factor, partial.b, value.b)};
    }
    *reinterpret_cast<FloatPair*>(a.y + (row + h) * dim + d) = value;
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU
