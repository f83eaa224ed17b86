// Causal attention over latents: a block has a token, some heads and a split of the keys, of which it holds a tile at a
// time for all of its heads. Two threads have a score of a head and a key, a half of D each; then every thread has some
// elements of the values, for all heads.
#include "kernels/attention/attention_latent.h"

#include "kernels/attention/kv_access.h"

namespace gabbro::gpu::GABBRO_GPU {

inline constexpr int kValueSteps =
    (kMaxLatent + static_cast<int>(kLatentThreads) - 1) / static_cast<int>(kLatentThreads);
// Neighboring keys are in different banks.
inline constexpr int kLatentPitch = kMaxLatent + 2;

// Keys [base, end) of a tile into the block's memory; zeros after them.
template <bool scaled>
GPU_FUNCTION inline void load_latents(const LatentAttentionArgs& a, i32 sequence, i32 base, i32 end, Half* tile) {
  const i32 pairs = a.kv.dim / 2;
  for (i32 i = static_cast<i32>(thread_index()); i < kLatentKeys * pairs; i += static_cast<i32>(kLatentThreads)) {
    const i32 key = i / pairs, d = (i - key * pairs) * 2;
    Half* const to = tile + key * kLatentPitch + d;
    if (base + key >= end) {
      to[0] = to[1] = Half{0};
      continue;
    }
    const i32 page = min_of(max_of(page_of(a.table, a.kv, sequence, base + key), 0), a.kv.pages - 1);
    const ValuePlace place = value_place(a.kv, page, 0, (base + key) & (a.kv.page - 1));
    if constexpr (scaled) {
      const i64 scale = place.scale + d / kScaleGroup;
      to[0] = to_half(read_kv<true>(a.latents, place.element + d, scale));
      to[1] = to_half(read_kv<true>(a.latents, place.element + d + 1, scale));
    } else {
      const u32 bits = *reinterpret_cast<const u32*>(static_cast<const Half*>(a.latents.data) + place.element + d);
      to[0] = Half{static_cast<u16>(bits)};
      to[1] = Half{static_cast<u16>(bits >> 16)};
    }
  }
}

template <bool scaled>
GPU_FUNCTION inline void latent_attention(const LatentAttentionArgs& a) {
  GPU_SHARED(float, queries, kLatentHeads* kMaxLatent);
  GPU_SHARED(Half, tile, kLatentKeys * kLatentPitch);
  GPU_SHARED(float, weights, kLatentHeads* kLatentKeys);
  GPU_SHARED(float, factors, kLatentHeads);
  GPU_SHARED(float, maxima, kLatentHeads);
  const i32 token = static_cast<i32>(block_index().x), thread = static_cast<i32>(thread_index()), dim = a.kv.dim;
  const i32 first_head = static_cast<i32>(block_index().y) * kLatentHeads;
  const i32 heads = min_of(kLatentHeads, a.q.heads - first_head);
  const i32 sequence = a.sequence[token], position = a.positions[token];
  const i32 end =
      in_table(a.table, a.kv, sequence, position) ? position + 1 : 0;  // others have no keys, and give zeros
  const i32 tiles = (end + kLatentKeys - 1) / kLatentKeys, share = (tiles + a.splits - 1) / a.splits * kLatentKeys;
  const i32 from = static_cast<i32>(block_index().z) * share, to = min_of(end, from + share);
  for (i32 i = thread; i < kLatentHeads * dim; i += static_cast<i32>(kLatentThreads)) {
    const i32 h = i / dim, d = i - h * dim;
    const float* x = a.q.data + token * a.q.token_stride + (first_head + h) * a.q.head_stride;
    queries[h * kMaxLatent + d] = h < heads ? x[d] * a.scale : 0;
  }
  // A thread's score is that of this head and key, over half of D.
  const i32 head = thread / (2 * kLatentKeys), key = thread / 2 % kLatentKeys, half = thread % 2;
  const i32 d_begin = half * (dim / 2), d_end = half == 0 ? dim / 2 : dim;
  float maximum = kNoMaximum, total = 0;
  float sums[kValueSteps][kLatentHeads] = {};
  for (i32 base = from; base < to; base += kLatentKeys) {
    barrier();  // reads of the tile before are done
    load_latents<scaled>(a, sequence, base, to, tile);
    barrier();
    float score = 0;
    for (i32 d = d_begin; d < d_end; ++d)
      score = fma(queries[head * kMaxLatent + d], to_float(tile[key * kLatentPitch + d]), score);
    score += shuffle_xor(score, 1);
    const bool counts = base + key < to;
    float highest = counts ? score : kNoMaximum;
    for (u32 step = 2; step < 2 * kLatentKeys; step *= 2) highest = max_of(highest, shuffle_xor(highest, step));
    highest = max_of(highest, maximum);
    const float weight = counts ? exp(score - highest) : 0, factor = exp(maximum - highest);
    float sum = weight;
    for (u32 step = 2; step < 2 * kLatentKeys; step *= 2) sum += shuffle_xor(sum, step);
    total = total * factor + sum;
    maximum = highest;
    if (half == 0) weights[head * kLatentKeys + key] = weight;
    if (half == 0 && key == 0) factors[head] = factor;
    barrier();
#pragma unroll
    for (int i = 0; i < kValueSteps; ++i) {
      const i32 d = i * static_cast<i32>(kLatentThreads) + thread;
      if (d >= a.values) continue;
#pragma unroll
      for (int h = 0; h < kLatentHeads; ++h) sums[i][h] *= factors[h];
      for (i32 k = 0; k < kLatentKeys; ++k) {
        const float value = to_float(tile[k * kLatentPitch + d]);
#pragma unroll
        for (int h = 0; h < kLatentHeads; ++h) sums[i][h] = fma(weights[h * kLatentKeys + k], value, sums[i][h]);
      }
    }
  }
  barrier();
  if (half == 0 && key == 0) {
    factors[head] = total;
    maxima[head] = maximum;
  }
  barrier();
#pragma unroll
  for (int i = 0; i < kValueSteps; ++i) {
    const i32 d = i * static_cast<i32>(kLatentThreads) + thread;
    if (d >= a.values) continue;
#pragma unroll
    for (int h = 0; h < kLatentHeads; ++h) {
      if (h >= heads) continue;
      const i64 row = static_cast<i64>(token) * a.q.heads + first_head + h;
      if (a.splits == 1) {
        a.y[row * a.values + d] = factors[h] > 0 ? sums[i][h] / factors[h] : 0;
        continue;
      }
      float* const partial = a.partials + (row * a.splits + block_index().z) * partial_floats(a.values);
      partial[d] = sums[i][h];
      if (d != 0) continue;
      partial[a.values] = maxima[h];
      partial[a.values + 1] = factors[h];
    }
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU

GPU_KERNEL(latent_attention_f16, gabbro::gpu::kLatentThreads, gabbro::gpu::LatentAttentionArgs, latent_attention<false>)
GPU_KERNEL(latent_attention_i8, gabbro::gpu::kLatentThreads, gabbro::gpu::LatentAttentionArgs, latent_attention<true>)
