// The running softmax of a block of attention_decode.h, over tiles of keys.
#pragma once

#include "kernels/attention/attention_splits.h"
#include "kernels/attention/cache_pairs.h"

namespace gabbro::gpu::GABBRO_GPU {

inline constexpr u32 kAttentionThreads = 512;
inline constexpr int kAttentionWaves = kAttentionThreads / kWave;
inline constexpr i32 kTileKeys = 256;
inline constexpr i32 kWaveKeys = 2 * kWave;
inline constexpr int kColumns = kTileKeys / kWaveKeys / 2;  // of keys in a tile that a wave has: every other
inline constexpr int kParts = kAttentionWaves / 2;          // that D is cut into
// In the softmax a thread has one key and these of the block's heads.
inline constexpr int kKeyHeads = kBlockHeads * kTileKeys / static_cast<int>(kAttentionThreads);
inline constexpr int kKeyWaves = kTileKeys / static_cast<int>(kWave);  // that have the same heads

// One of each of the block's heads.
struct alignas(16) OfHeads {
  float head[kBlockHeads];
};

GPU_FUNCTION inline float capped(const AttentionArgs& a, float score) {
  return a.softcap > 0 ? a.softcap * tanh(score / a.softcap) : score;
}

// The block's running softmax. Probabilities are relative to the largest score; a thread has the sums of those that it
// computed, of kKeyHeads heads, and a wave the output of its keys.
template <int max_dim>
struct Running {
  static constexpr int kPairs = max_dim / 2 / static_cast<int>(kWave);  // of D that a lane has
  OfHeads maximum;
  float sum[kKeyHeads];
  Pair output[kBlockHeads][kPairs];
};

// The partial products become weights, and what was seen before is made relative to the new maximum. `counts`: whether
// the thread's key, number thread_index() % kTileKeys of the tile, is one that the token attends to.
template <int max_dim>
GPU_FUNCTION inline void apply_softmax(const AttentionArgs& a, const float* partial, bool counts, OfHeads* weights,
                                       Running<max_dim>& running) {
  GPU_SHARED(float, maxima, kBlockHeads* kKeyWaves);
  const i32 key = static_cast<i32>(thread_index()) % kTileKeys;
  const i32 first_head = static_cast<i32>(thread_index()) / kTileKeys * kKeyHeads;
  float score[kKeyHeads];
#pragma unroll
  for (int h = 0; h < kKeyHeads; ++h) {
    float sum = 0;
#pragma unroll
    for (int p = 0; p < kParts; ++p) sum += partial[(p * kBlockHeads + first_head + h) * kTileKeys + key];
    score[h] = counts ? capped(a, sum) : kNoMaximum;
    const float highest = wave_max(score[h]);
    if (lane() == 0) maxima[(first_head + h) * kKeyWaves + static_cast<i32>(wave_index()) % kKeyWaves] = highest;
  }
  barrier();
  float own_maximum[kKeyHeads] = {}, own_factor[kKeyHeads] = {};
#pragma unroll
  for (int h = 0; h < kBlockHeads; ++h) {
    float highest = running.maximum.head[h];
#pragma unroll
    for (int w = 0; w < kKeyWaves; ++w) highest = max_of(highest, maxima[h * kKeyWaves + w]);
    const float factor = exp(running.maximum.head[h] - highest);
    running.maximum.head[h] = highest;
#pragma unroll
    for (int i = 0; i < Running<max_dim>::kPairs; ++i) {
      running.output[h][i].a *= factor;
      running.output[h][i].b *= factor;
    }
    if (h / kKeyHeads * kKeyHeads == first_head) {
      own_maximum[h % kKeyHeads] = highest;
      own_factor[h % kKeyHeads] = factor;
    }
  }
#pragma unroll
  for (int h = 0; h < kKeyHeads; ++h) {
    const float weight = counts ? exp(score[h] - own_maximum[h]) : 0;
    running.sum[h] = running.sum[h] * own_factor[h] + weight;
    weights[key].head[first_head + h] = weight;
  }
}

// The sums of the weights of `head`, by the threads that have it.
GPU_FUNCTION inline float total_of(const float* sums, i32 head) {
  float total = 0;
#pragma unroll
  for (int w = 0; w < kKeyWaves; ++w) total += sums[head * kKeyWaves + w];
  return total;
}

}  // namespace gabbro::gpu::GABBRO_GPU
