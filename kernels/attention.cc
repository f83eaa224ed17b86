// Causal attention of few tokens over the paged cache (flash decoding, Dao 2023): a block a token and head. Each wave
// walks over keys, a lane a key, with a running maximum and sum; then it holds the output with a lane an element of D.
// At the end the waves' shares are merged.
#include "kernels/kv_access.h"

namespace gabbro::gpu::GABBRO_GPU {

inline constexpr u32 kAttentionThreads = 256;
inline constexpr u32 kAttentionWaves = kAttentionThreads / kWave;
inline constexpr u32 kDimsPerLane = kMaxHeadDim / kWave;
inline constexpr float kNoMaximum = -1e30f;  // of a wave without keys; finite, so that differences are never NaN

// Loads that are under way together: memory answers them in the time of one.
inline constexpr int kElementsAhead = 32;
inline constexpr int kKeysAhead = 8;
static_assert(kScaleGroup % kElementsAhead == 0);

template <bool scaled>
GPU_FUNCTION inline float score_of(const AttentionArgs& a, const float* q, i32 page, i32 head, i32 slot) {
  const KeyPlace place = key_place(a.kv, page, head, slot);
  const auto element = [&](i32 d) {
    return read_kv<scaled>(a.keys, place.element + static_cast<i64>(d) * a.kv.page,
                           place.scale + static_cast<i64>(d / kScaleGroup) * a.kv.page);
  };
  float sum = 0;
  i32 d = 0;
  for (; d + kElementsAhead <= a.kv.dim; d += kElementsAhead) {
    float key[kElementsAhead];
#pragma unroll
    for (int i = 0; i < kElementsAhead; ++i) key[i] = element(d + i);
#pragma unroll
    for (int i = 0; i < kElementsAhead; ++i) sum = fma(q[d + i], key[i], sum);
  }
  for (; d < a.kv.dim; ++d) sum = fma(q[d], element(d), sum);
  return a.softcap > 0 ? a.softcap * tanh(sum / a.softcap) : sum;
}

// output += weight · value over the wave's `keys` keys from `base` on, whose weights and pages the lanes hold. Keys
// past the end have the weight 0 and stand for the last one.
template <bool scaled>
GPU_FUNCTION inline void add_values(const AttentionArgs& a, i32 kv_head, i32 base, i32 keys, float weight, i32 page,
                                    float* output) {
  for (i32 first = 0; first < keys; first += kKeysAhead) {
    float weights[kKeysAhead], values[kKeysAhead][kDimsPerLane];
#pragma unroll
    for (int j = 0; j < kKeysAhead; ++j) {
      const i32 key = min_of(first + j, keys - 1);
      const float w = shuffle(weight, static_cast<u32>(key));
      weights[j] = first + j < keys ? w : 0;
      const ValuePlace place =
          value_place(a.kv, shuffle(page, static_cast<u32>(key)), kv_head, (base + key) % a.kv.page);
#pragma unroll
      for (u32 i = 0; i < kDimsPerLane; ++i) {
        const i32 d = static_cast<i32>(i * kWave + lane());
        values[j][i] = d < a.kv.dim ? read_kv<scaled>(a.values, place.element + d, place.scale + d / kScaleGroup) : 0;
      }
    }
#pragma unroll
    for (int j = 0; j < kKeysAhead; ++j) {
#pragma unroll
      for (u32 i = 0; i < kDimsPerLane; ++i) output[i] = fma(weights[j], values[j][i], output[i]);
    }
  }
}

template <bool scaled>
GPU_FUNCTION inline void attention(const AttentionArgs& a) {
  GPU_SHARED(float, q, kMaxHeadDim);
  GPU_SHARED(float, outputs, kAttentionWaves* kMaxHeadDim);
  GPU_SHARED(float, maxima, kAttentionWaves);
  GPU_SHARED(float, sums, kAttentionWaves);
  const i32 token = static_cast<i32>(block_index().x), head = static_cast<i32>(block_index().y);
  const i32 kv_head = head / (a.q.heads / a.kv.heads), dim = a.kv.dim;
  const i32 sequence = a.sequence[token], position = a.positions[token];
  const float* x = a.q.data + token * a.q.token_stride + head * a.q.head_stride;
  for (i32 d = static_cast<i32>(thread_index()); d < dim; d += static_cast<i32>(kAttentionThreads))
    q[d] = x[d] * a.scale;
  barrier();

  const bool known = in_table(a.table, a.kv, sequence, position);  // a token that is not has no keys, and gives zeros
  const i32 last = known ? position + 1 : 0, first = a.window > 0 ? max_of(0, last - a.window) : 0;
  // Whole passes of the block, so that few keys are all in the first share.
  const i32 step = static_cast<i32>(kAttentionThreads);
  const i32 passes = (last - first + step - 1) / step, share = (passes + a.shares - 1) / a.shares * step;
  const i32 begin = first + static_cast<i32>(block_index().z) * share, end = min_of(last, begin + share);
  float output[kDimsPerLane] = {};
  float maximum = kNoMaximum, sum = 0;
  for (i32 base = begin + static_cast<i32>(wave_index() * kWave); base < end; base += step) {
    const i32 key = base + static_cast<i32>(lane());
    const bool inside = key < end;
    // Page numbers out of range are held within the cache.
    const i32 page = inside ? min_of(max_of(page_of(a.table, a.kv, sequence, key), 0), a.kv.pages - 1) : 0;
    const i32 slot = key % a.kv.page;
    const float score = inside ? score_of<scaled>(a, q, page, kv_head, slot) : kNoMaximum;
    const float highest = max_of(maximum, wave_max(score));
    const float factor = exp(maximum - highest), weight = inside ? exp(score - highest) : 0;
    maximum = highest;
    sum = sum * factor + wave_sum(weight);
#pragma unroll
    for (u32 i = 0; i < kDimsPerLane; ++i) output[i] *= factor;
    add_values<scaled>(a, kv_head, base, min_of(end - base, static_cast<i32>(kWave)), weight, page, output);
  }
  if (lane() == 0) {
    maxima[wave_index()] = maximum;
    sums[wave_index()] = sum;
  }
#pragma unroll
  for (u32 i = 0; i < kDimsPerLane; ++i) outputs[wave_index() * kMaxHeadDim + i * kWave + lane()] = output[i];
  barrier();

  const i64 row = static_cast<i64>(token) * a.q.heads + head;
  float* partial = a.partials + (row * a.shares + block_index().z) * partial_floats(dim);
  float highest = kNoMaximum, total = 0;
  for (u32 w = 0; w < kAttentionWaves; ++w) highest = max_of(highest, maxima[w]);
  for (u32 w = 0; w < kAttentionWaves; ++w) total += sums[w] * exp(maxima[w] - highest);
  for (i32 d = static_cast<i32>(thread_index()); d < dim; d += static_cast<i32>(kAttentionThreads)) {
    float value = 0;
    for (u32 w = 0; w < kAttentionWaves; ++w) value += outputs[w * kMaxHeadDim + d] * exp(maxima[w] - highest);
    if (a.shares > 1) {
      partial[d] = value;
    } else {
      a.y[row * dim + d] = total > 0 ? value / total : 0;
    }
  }
  if (a.shares > 1 && thread_index() == 0) {
    partial[dim] = highest;
    partial[dim + 1] = total;
  }
}

GPU_FUNCTION inline void attention_merge(const AttentionMergeArgs& a) {
  const i64 row = static_cast<i64>(block_index().x) * a.heads + block_index().y;
  const i32 floats = partial_floats(a.dim);
  const float* partials = a.partials + row * a.shares * floats;
  float highest = kNoMaximum, total = 0;
  for (i32 s = 0; s < a.shares; ++s) highest = max_of(highest, partials[s * floats + a.dim]);
  for (i32 s = 0; s < a.shares; ++s)
    total += partials[s * floats + a.dim + 1] * exp(partials[s * floats + a.dim] - highest);
  for (i32 d = static_cast<i32>(thread_index()); d < a.dim; d += static_cast<i32>(block_size())) {
    float value = 0;
    for (i32 s = 0; s < a.shares; ++s) value += partials[s * floats + d] * exp(partials[s * floats + a.dim] - highest);
    a.y[row * a.dim + d] = total > 0 ? value / total : 0;
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU

GPU_KERNEL(attention_f16, 256, gabbro::gpu::AttentionArgs, attention<false>)
GPU_KERNEL(attention_i8, 256, gabbro::gpu::AttentionArgs, attention<true>)
GPU_KERNEL(attention_merge, 128, gabbro::gpu::AttentionMergeArgs, attention_merge)
