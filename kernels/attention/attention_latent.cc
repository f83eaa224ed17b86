// Causal attention over latents: a block has a token, some heads and a split of the keys; it holds one tile at a
// time for all of its heads. Some threads have a score of a head and a key, a part of D each; then every thread has
// some elements of the values, for all heads.
#include "kernels/attention/attention_latent.h"

#include "kernels/attention/kv_access.h"

namespace gabbro::gpu::GABBRO_GPU {

inline constexpr int kValueSteps =
    (kMaxLatent + static_cast<int>(kLatentThreads) - 1) / static_cast<int>(kLatentThreads);
// Neighboring keys are in different banks.
inline constexpr int kLatentPitch = kMaxLatent + 2;

// A tile of keys in the block's memory: f16, to which i8 and their scales are rounded; of other types f32, and half as
// many keys. kParts threads have a score.
template <class T>
struct TileLayout {
  using Element = T;
  static constexpr int kKeys = kLatentKeys * static_cast<int>(sizeof(Half)) / static_cast<int>(sizeof(T));
  static constexpr int kParts = static_cast<int>(kLatentThreads) / (kLatentHeads * kKeys);
};
template <KvType type>
struct LatentTile : TileLayout<float> {};
template <>
struct LatentTile<KvType::kF16> : TileLayout<Half> {};
template <>
struct LatentTile<KvType::kI8> : TileLayout<Half> {};

// Keys [base, end) of a tile into the block's memory; zeros after them.
template <KvType type, class T>
GPU_FUNCTION inline void load_latents(const LatentAttentionArgs& a, i32 sequence, i32 base, i32 end, T* tile) {
  const i32 pairs = a.kv.dim / 2, keys = LatentTile<type>::kKeys;
  for (i32 i = static_cast<i32>(thread_index()); i < keys * pairs; i += static_cast<i32>(kLatentThreads)) {
    const i32 key = i / pairs, d = (i - key * pairs) * 2;
    T* const to = tile + key * kLatentPitch + d;
    if (base + key >= end) {
      to[0] = to[1] = T{};
      continue;
    }
    const i32 page = min_of(max_of(page_of(a.table, a.kv, sequence, base + key), 0), a.kv.pages - 1);
    const ValuePlace place = value_place<type>(a.kv, page, 0, (base + key) & (a.kv.page - 1));
    if constexpr (type != KvType::kF16) {
      to[0] = from_float<T>(read_value<type>(a.latents, place, d));
      to[1] = from_float<T>(read_value<type>(a.latents, place, d + 1));
    } else {
      const u32 bits = *reinterpret_cast<const u32*>(static_cast<const Half*>(a.latents.data) + place.element + d);
      to[0] = Half{static_cast<u16>(bits)};
      to[1] = Half{static_cast<u16>(bits >> 16)};
    }
  }
}

// Adds a tile's values times their probabilities `weights` [kLatentHeads][keys], after the sums so far times their
// factors. A thread has the elements thread + i · kLatentThreads, of all heads.
template <int keys, class T>
GPU_INLINE inline void add_latent_values(const T* tile, const float* weights, const float* factors, i32 thread,
                                         i32 values, float (&sums)[kValueSteps][kLatentHeads]) {
#pragma unroll
  for (int i = 0; i < kValueSteps; ++i) {
    const i32 d = i * static_cast<i32>(kLatentThreads) + thread;
    if (d >= values) continue;
#pragma unroll
    for (int h = 0; h < kLatentHeads; ++h) sums[i][h] *= factors[h];
    for (i32 k = 0; k < keys; ++k) {
      const float value = to_float(tile[k * kLatentPitch + d]);
#pragma unroll
      for (int h = 0; h < kLatentHeads; ++h) sums[i][h] = fma(weights[h * keys + k], value, sums[i][h]);
    }
  }
}

// Heads of a token.
struct TokenHeads {
  i32 token, first, count;
};
// The result, or with several splits the partial result with its maximum and total.
GPU_INLINE inline void store_latent_values(const LatentAttentionArgs& a, const TokenHeads& heads, i32 thread,
                                           const float* totals, const float* maxima,
                                           const float (&sums)[kValueSteps][kLatentHeads]) {
#pragma unroll
  for (int i = 0; i < kValueSteps; ++i) {
    const i32 d = i * static_cast<i32>(kLatentThreads) + thread;
    if (d >= a.values) continue;
#pragma unroll
    for (int h = 0; h < kLatentHeads; ++h) {
      if (h >= heads.count) continue;
      const i64 row = static_cast<i64>(heads.token) * a.q.heads + heads.first + h;
      if (a.splits == 1) {
        a.y[row * a.values + d] = totals[h] > 0 ? sums[i][h] / totals[h] : 0;
        continue;
      }
      float* const partial = a.partials + (row * a.splits + block_index().z) * partial_floats(a.values);
      partial[d] = sums[i][h];
      if (d != 0) continue;
      partial[a.values] = maxima[h];
      partial[a.values + 1] = totals[h];
    }
  }
}

template <KvType type>
GPU_FUNCTION inline void latent_attention(const LatentAttentionArgs& a) {
  using Tile = LatentTile<type>;
  constexpr int kKeys = Tile::kKeys, kParts = Tile::kParts;
  GPU_SHARED(float, queries, kLatentHeads* kMaxLatent);
  GPU_SHARED(typename Tile::Element, tile, kKeys * kLatentPitch);
  GPU_SHARED(float, weights, kLatentHeads* kKeys);
  GPU_SHARED(float, factors, kLatentHeads);
  GPU_SHARED(float, maxima, kLatentHeads);
  const i32 token = static_cast<i32>(block_index().x), thread = static_cast<i32>(thread_index()), dim = a.kv.dim;
  const i32 first_head = static_cast<i32>(block_index().y) * kLatentHeads;
  const i32 heads = min_of(kLatentHeads, a.q.heads - first_head);
  const i32 sequence = a.sequence[token], position = a.positions[token];
  const i32 end =
      in_table(a.table, a.kv, sequence, position) ? position + 1 : 0;  // others have no keys, and give zeros
  const i32 tiles = (end + kKeys - 1) / kKeys, share = (tiles + a.splits - 1) / a.splits * kKeys;
  const i32 from = static_cast<i32>(block_index().z) * share, to = min_of(end, from + share);
  for (i32 i = thread; i < kLatentHeads * dim; i += static_cast<i32>(kLatentThreads)) {
    const i32 h = i / dim, d = i - h * dim;
    const float* x = a.q.data + token * a.q.token_stride + (first_head + h) * a.q.head_stride;
    queries[h * kMaxLatent + d] = h < heads ? x[d] * a.scale : 0;
  }
  // A thread's score is that of this head and key, over a part of D.
  const i32 head = thread / (kParts * kKeys), key = thread / kParts % kKeys, part = thread % kParts;
  const i32 d_begin = part * dim / kParts, d_end = (part + 1) * dim / kParts;
  float maximum = kNoMaximum, total = 0;
  float sums[kValueSteps][kLatentHeads] = {};
  for (i32 base = from; base < to; base += kKeys) {
    barrier();  // reads of the tile before are done
    load_latents<type>(a, sequence, base, to, tile);
    barrier();
    float score = 0;
    for (i32 d = d_begin; d < d_end; ++d)
      score = fma(queries[head * kMaxLatent + d], to_float(tile[key * kLatentPitch + d]), score);
    for (u32 step = 1; step < kParts; step *= 2) score += shuffle_xor(score, step);
    const bool counts = base + key < to;
    float highest = counts ? score : kNoMaximum;
    for (u32 step = kParts; step < kParts * kKeys; step *= 2) highest = max_of(highest, shuffle_xor(highest, step));
    highest = max_of(highest, maximum);
    const float weight = counts ? exp(score - highest) : 0, factor = exp(maximum - highest);
    float sum = weight;
    for (u32 step = kParts; step < kParts * kKeys; step *= 2) sum += shuffle_xor(sum, step);
    total = total * factor + sum;
    maximum = highest;
    if (part == 0) weights[head * kKeys + key] = weight;
    if (part == 0 && key == 0) factors[head] = factor;
    barrier();
    add_latent_values<kKeys>(tile, weights, factors, thread, a.values, sums);
  }
  barrier();
  if (part == 0 && key == 0) {
    factors[head] = total;
    maxima[head] = maximum;
  }
  barrier();
  store_latent_values(a, {token, first_head, heads}, thread, factors, maxima, sums);
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_LATENT_ATTENTION(suffix, type)                                                          \
  GPU_KERNEL(latent_attention_##suffix, gabbro::gpu::kLatentThreads, gabbro::gpu::LatentAttentionArgs, \
             latent_attention<gabbro::gpu::type>)

GABBRO_LATENT_ATTENTION(f16, KvType::kF16)
GABBRO_LATENT_ATTENTION(i8, KvType::kI8)
GABBRO_LATENT_ATTENTION(f32, KvType::kF32)
GABBRO_LATENT_ATTENTION(bf16, KvType::kBf16)
GABBRO_LATENT_ATTENTION(u4, KvType::kU4)
