// Causal attention of few tokens over the paged cache (flash decoding, Dao 2023): a block has a token, up to
// kBlockHeads heads that share a KV head, and a split of the keys, which it reads tile by tile. For the scores a wave
// has a part of D and half of the tile's keys, two neighbors per lane; for the output it has a part of the keys and all
// of D.
#pragma once

#include "kernels/attention/decode_softmax.h"

namespace gabbro::gpu::GABBRO_GPU {

// Loads that are under way together: memory answers them in the time of one.
inline constexpr int kKeyPairsAhead = 16;
inline constexpr int kValuePairsAhead = 16;

// The token's own key and value where they are not in the cache yet.
struct FreshKey {
  const float* key;  // null: there is none
  const float* value;
};

// The first key that is seen, or none.
template <int max_dim>
GPU_FUNCTION inline void begin(const AttentionArgs& a, const OfHeads* q, const FreshKey& fresh,
                               Running<max_dim>& running) {
  const bool own = fresh.key != nullptr;
  OfHeads score = {};
  for (i32 d = static_cast<i32>(lane()); own && d < a.kv.dim; d += static_cast<i32>(kWave)) {
#pragma unroll
    for (int h = 0; h < kBlockHeads; ++h) score.head[h] = fma(q[d].head[h], fresh.key[d], score.head[h]);
  }
  // For each head one thread starts the sum: the first of those that have the head.
#pragma unroll
  for (float& sum : running.sum) sum = own && thread_index() % kTileKeys == 0 ? 1 : 0;
#pragma unroll
  for (int h = 0; h < kBlockHeads; ++h) {
    running.maximum.head[h] = own ? capped(a, wave_sum(score.head[h])) : kNoMaximum;
#pragma unroll
    for (int i = 0; i < Running<max_dim>::kPairs; ++i) {
      const i32 d = 2 * (i * static_cast<i32>(kWave) + static_cast<i32>(lane()));
      const bool has = own && wave_index() == 0 && d < a.kv.dim;
      running.output[h][i] = has ? Pair{fresh.value[d], fresh.value[d + 1]} : Pair{};
    }
  }
}

// partial[part][head][key] of the tile: q·k over the wave's part of D. `rows` are the places of its keys (see
// attend()).
template <KvType type>
GPU_FUNCTION inline void multiply_keys(const AttentionArgs& a, const OfHeads* q, const i32* rows, i32 count,
                                       float* partial) {
  constexpr int kDims = kKeyPairsAhead / kColumns / pair_words(type);  // that are loaded together
  const i32 part = static_cast<i32>(wave_index()) / 2;
  const i32 each = (a.kv.dim + kParts - 1) / kParts, d_begin = part * each, d_end = min_of(a.kv.dim, d_begin + each);
  i32 keys[kColumns];
  KeySlot places[kColumns];
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    keys[c] = (2 * c + static_cast<i32>(wave_index()) % 2) * kWaveKeys + 2 * static_cast<i32>(lane());
    // Past the end the last pair stands in.
    const i32 row = rows[min_of(keys[c], (count - 1) & ~1)], slot = row & (a.kv.page - 1);
    const i64 head = static_cast<i64>(row - slot) * a.kv.dim;
    places[c] = {stored<type>(head) + slot, head / kScaleGroup + slot};
  }
  OfHeads sums[kColumns][2] = {};
  for (i32 first = d_begin; first < d_end; first += kDims) {
    RawPair<type> raw[kColumns][kDims];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      if (keys[c] - 2 * static_cast<i32>(lane()) >= count) break;
#pragma unroll
      for (int i = 0; i < kDims; ++i) {
        const i32 d = min_of(first + i, d_end - 1);
        raw[c][i] = load_pair<type>(a.keys, places[c].element + static_cast<i64>(stored_row<type>(d)) * a.kv.page, d,
                                    places[c].scale + static_cast<i64>(d / kScaleGroup) * a.kv.page, 1);
      }
    }
#pragma unroll
    for (int i = 0; i < kDims; ++i) {
      if (first + i >= d_end) break;
      const OfHeads x = q[first + i];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const Pair key = pair_of<type>(raw[c][i]);
#pragma unroll
        for (int h = 0; h < kBlockHeads; ++h) {
          sums[c][0].head[h] = fma(x.head[h], key.a, sums[c][0].head[h]);
          sums[c][1].head[h] = fma(x.head[h], key.b, sums[c][1].head[h]);
        }
      }
    }
  }
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
#pragma unroll
    for (int h = 0; h < kBlockHeads; ++h) {
      float* to = partial + (part * kBlockHeads + h) * kTileKeys + keys[c];
      to[0] = sums[c][0].head[h];
      to[1] = sums[c][1].head[h];
    }
  }
}

// The values of every kAttentionWaves'th key of a tile, from the wave's own on.
template <KvType type, int max_dim>
class Values {
 public:
  static constexpr int kPairs = Running<max_dim>::kPairs;
  // Heads of over 128 elements of i8 leave few registers where a block's waves have 128 a lane.
  static constexpr int kAhead =
      kFewRegisters && has_scales(type) && max_dim > 128 ? kValuePairsAhead / 2 : kValuePairsAhead;
  static constexpr int kKeys = kAhead / kPairs / pair_words(type);

  GPU_FUNCTION Values(const AttentionArgs& a, const i32* rows, i32 count) : a_(a), rows_(rows), count_(count) {}

  GPU_FUNCTION void load(i32 first) {
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const i64 row = static_cast<i64>(rows_[min_of(key_at(first + j), count_ - 1)]) * a_.kv.dim;
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        const i32 d = min_of(dim(i), a_.kv.dim - 2);
        raw_[j][i] = load_pair<type>(a_.values, stored<type>(row) + stored_row<type>(d), d, (row + d) / kScaleGroup, 0);
      }
    }
  }
  GPU_FUNCTION void add(i32 first, const OfHeads* weights, Running<max_dim>& running) const {
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const i32 key = key_at(first + j);
      if (key >= count_) break;
      const OfHeads weight = weights[key];
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        const Pair value = pair_of<type>(raw_[j][i]);
#pragma unroll
        for (int h = 0; h < kBlockHeads; ++h) {
          running.output[h][i].a = fma(weight.head[h], value.a, running.output[h][i].a);
          running.output[h][i].b = fma(weight.head[h], value.b, running.output[h][i].b);
        }
      }
    }
  }
  // The wave's keys; the first is loaded before it is known whether the wave has one.
  GPU_FUNCTION bool has(i32 index) const { return key_at(index) < count_; }
  GPU_FUNCTION static i32 dim(int i) { return 2 * (i * static_cast<i32>(kWave) + static_cast<i32>(lane())); }

 private:
  GPU_FUNCTION static i32 key_at(i32 index) { return index * kAttentionWaves + static_cast<i32>(wave_index()); }

  const AttentionArgs& a_;
  const i32* rows_;
  const i32 count_;
  RawPair<type> raw_[kKeys][kPairs];
};

// Stores a head's result: sums of weighted values, divided by the sum of the weights if there is one split.
template <int max_dim>
GPU_FUNCTION inline void store_outputs(const AttentionArgs& a, i64 row, const BlockHeads& heads, i32 splits,
                                       const Running<max_dim>& running, float* outputs) {
  constexpr int kThreads = static_cast<int>(kAttentionThreads);
  GPU_SHARED(float, sums, kBlockHeads* kKeyWaves);
  GPU_SHARED(float, maxima, kBlockHeads);
  const i32 thread = static_cast<i32>(thread_index());
#pragma unroll
  for (int h = 0; h < kKeyHeads; ++h) {
    const float sum = wave_sum(running.sum[h]);
    const i32 head = thread / kTileKeys * kKeyHeads + h;
    if (lane() == 0) sums[head * kKeyWaves + static_cast<i32>(wave_index()) % kKeyWaves] = sum;
  }
  if (thread == 0) {
#pragma unroll
    for (int h = 0; h < kBlockHeads; ++h) maxima[h] = running.maximum.head[h];
  }
  // The second half of the waves leaves its outputs to the first.
  constexpr int kHalf = kAttentionWaves / 2;
  const int wave = static_cast<int>(wave_index());
#pragma unroll
  for (int half = 1; half >= 0; --half) {
    if (wave / kHalf == half) {
#pragma unroll
      for (int h = 0; h < kBlockHeads; ++h) {
#pragma unroll
        for (int i = 0; i < Running<max_dim>::kPairs; ++i) {
          const i32 d = 2 * (i * static_cast<i32>(kWave) + static_cast<i32>(lane()));
          if (d >= a.kv.dim) continue;
          float* to = outputs + (wave % kHalf * kBlockHeads + h) * max_dim + d;
          to[0] = running.output[h][i].a + (half == 1 ? 0 : to[0]);
          to[1] = running.output[h][i].b + (half == 1 ? 0 : to[1]);
        }
      }
    }
    barrier();
  }
#pragma unroll
  for (int j = 0; j < kBlockHeads * max_dim / kThreads; ++j) {
    const i32 i = j * kThreads + thread, h = i / max_dim, d = i % max_dim;
    if (h >= heads.count || d >= a.kv.dim) continue;
    float value = 0;
#pragma unroll
    for (int w = 0; w < kHalf; ++w) value += outputs[(w * kBlockHeads + h) * max_dim + d];
    store_split(a, row + h, splits, d, value, maxima[h], total_of(sums, h));
  }
}

// Has the pages of a tile's keys brought nearer while the tile before is worked on.
GPU_FUNCTION inline void ask_for_tile(const AttentionArgs& a, const i32* rows, i32 count, i32 element_bits) {
  const i32 page_bytes = a.kv.dim * a.kv.page * element_bits / 8;  // of a head
  for (i32 key = 0; key < count; key += a.kv.page) {
    const i32 row = rows[key], slot = row & (a.kv.page - 1);
    const i64 offset = static_cast<i64>(row - slot) * a.kv.dim * element_bits / 8;
    ask_for_page(a, offset, page_bytes);
  }
}

// The block's split of `keys`. All its threads stored the heads' queries and the fresh key in the block's memory before
// this; no barrier has been passed since.
template <KvType type, int max_dim>
GPU_FUNCTION inline void attend(const AttentionArgs& a, const OfHeads* q, const BlockHeads& heads, i32 sequence,
                                const Keys& keys, const FreshKey& fresh) {
  constexpr int kScores = kParts * kBlockHeads * kTileKeys, kOutputs = kParts * kBlockHeads * max_dim;
  GPU_SHARED(float, partial, (kScores > kOutputs ? kScores : kOutputs));  // of scores, and in the end of outputs
  GPU_SHARED(OfHeads, weights, kTileKeys);
  // Rows of the tile's keys, (page·G + head)·P + slot, for two tiles.
  GPU_SHARED(i32, rows, 2 * kTileKeys);
  const i32 share = static_cast<i32>(block_index().z);
  if (share >= keys.splits) return;
  Running<max_dim> running;
  const i32 from = keys.base + share * keys.split, to = min_of(keys.end, from + keys.split);
  if (from >= to) {
    barrier();
    begin<max_dim>(a, q, fresh, running);
  }
  // The row of the thread's key in the tile at `base`.
  const auto row_of = [&](i32 base) {
    const i32 key = base + static_cast<i32>(thread_index()) % kTileKeys;
    // Page numbers out of range are held within the cache.
    const i32 page = key < to ? page_of(a.table, a.kv, sequence, key) : 0;
    const i32 held = min_of(max_of(page, 0), a.kv.pages - 1);
    return ((held * a.kv.heads + heads.kv_head) << a.kv.page_bits) + (key & (a.kv.page - 1));
  };
  const bool has_key = static_cast<i32>(thread_index()) < kTileKeys;
  i32 *tile_rows = rows, *next_rows = rows + kTileKeys;
  if (has_key && from < to) tile_rows[thread_index()] = row_of(from);
  for (i32 base = from; base < to; base += kTileKeys) {
    const i32 count = min_of(kTileKeys, to - base);
    const i32 key = base + static_cast<i32>(thread_index()) % kTileKeys;
    const bool more = base + kTileKeys < to;
    barrier();
    if (more && has_key) next_rows[thread_index()] = row_of(base + kTileKeys);
    Values<type, max_dim> values(a, tile_rows, count);
    values.load(0);
    multiply_keys<type>(a, q, tile_rows, count, partial);
    if (base == from) begin<max_dim>(a, q, fresh, running);
    barrier();
    if (more) ask_for_tile(a, next_rows, min_of(kTileKeys, to - base - kTileKeys), kv_bits(type));
    apply_softmax<max_dim>(a, partial, key >= keys.first && key < to, weights, running);
    barrier();
    for (i32 first = 0; values.has(first); first += Values<type, max_dim>::kKeys) {
      if (first > 0) values.load(first);
      values.add(first, weights, running);
    }
    i32* const last_rows = tile_rows;
    tile_rows = next_rows;
    next_rows = last_rows;
  }
  const i64 row = static_cast<i64>(block_index().x) * a.q.heads + heads.first;
  store_outputs<max_dim>(a, row, heads, keys.splits, running, partial);
  if (keys.splits > 1)
    merge_splits<max_dim, kBlockHeads, static_cast<int>(kAttentionThreads)>(a, row, heads, keys.splits);
}

// Copies the queries of the block's heads to its memory, with zeros for heads that it does not have.
template <int max_dim, class Element>
GPU_FUNCTION inline void keep_queries(const AttentionArgs& a, const BlockHeads& heads, OfHeads* q,
                                      const Element& element) {
#pragma unroll
  for (int j = 0; j < kBlockHeads * max_dim / static_cast<int>(kAttentionThreads); ++j) {
    const i32 i = j * static_cast<i32>(kAttentionThreads) + static_cast<i32>(thread_index());
    const i32 h = i / max_dim, d = i % max_dim;
    if (d < a.kv.dim) q[d].head[h] = h < heads.count ? element(heads.first + h, d) * a.scale : 0;
  }
}

template <KvType type, int max_dim>
GPU_FUNCTION inline void attention(const AttentionArgs& a) {
  GPU_SHARED(OfHeads, q, max_dim);
  const i32 token = static_cast<i32>(block_index().x);
  const i32 sequence = a.sequence[token], position = a.positions[token];
  const BlockHeads heads = block_heads(a);
  const float* x = a.q.data + token * a.q.token_stride;
  keep_queries<max_dim>(a, heads, q, [&](i32 head, i32 d) { return x[head * a.q.head_stride + d]; });
  const bool known = in_table(a.table, a.kv, sequence, position);  // a token that is not has no keys, and gives zeros
  const Keys keys = known_keys<kShareKeys, 2>(a, known, position, position + 1);
  attend<type, max_dim>(a, q, heads, sequence, keys, {nullptr, nullptr});
}

// Attention for a token whose key and value are not in the cache yet. Each block rotates and rounds them for itself;
// one block of a KV head's stores them in the cache, for later launches.
template <KvType type, int max_dim>
GPU_FUNCTION inline void attention_step(const AttentionStepArgs& step) {
  GPU_SHARED(OfHeads, q, max_dim);
  GPU_SHARED(float, key, max_dim);
  GPU_SHARED(float, value, max_dim);
  const AttentionArgs& a = step.attention;
  ask_for_keys<kShareKeys, 2>(a, kTileKeys, kv_bits(type) / 8);
  wait_for_previous();
  static_assert(max_dim <= static_cast<int>(kAttentionThreads));
  const BlockHeads heads = block_heads(a);
  const i32 token = static_cast<i32>(block_index().x);
  const i32 sequence = a.sequence[token], position = a.positions[token];
  const i32 d = static_cast<i32>(thread_index()), safe = min_of(d, a.kv.dim - 1);
  const bool inside = d < a.kv.dim;
  const float* x = a.q.data + token * a.q.token_stride;
  const float* k = head_of(step.k, token, heads.kv_head);
  const float* v = head_of(step.v, token, heads.kv_head);
  const KvElement own_key =
      kv_element<type>(rotated(step.rope, k, safe, rotation_of(step.rope, safe, position)), inside);
  const KvElement own_value = kv_element<type>(v[safe], inside);
  if (inside) {
    key[d] = own_key.read;
    value[d] = own_value.read;
  }
  keep_queries<max_dim>(a, heads, q, [&](i32 head, i32 element) {
    return rotated(step.rope, x + head * a.q.head_stride, element, rotation_of(step.rope, element, position));
  });
  const bool known = in_table(a.table, a.kv, sequence, position);
  if (known && inside) write_fresh<type>(a, heads, sequence, position, d, own_key, own_value);
  const bool fresh = known && block_index().z == 0;
  const Keys keys = known_keys<kShareKeys, 2>(a, known, position, position);
  attend<type, max_dim>(a, q, heads, sequence, keys, {fresh ? key : nullptr, fresh ? value : nullptr});
}

}  // namespace gabbro::gpu::GABBRO_GPU
