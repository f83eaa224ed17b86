// Causal attention of few tokens over the paged cache (flash decoding, Dao 2023): a block a token and head. Each wave
// walks over keys, a lane a key, with a running maximum and sum; then it holds the output with a lane an element of D.
// At the end the waves' shares are merged.
#include "kernels/rope.h"

namespace gabbro::gpu::GABBRO_GPU {

inline constexpr u32 kAttentionThreads = 256;
inline constexpr u32 kAttentionWaves = kAttentionThreads / kWave;
inline constexpr u32 kDimsPerLane = kMaxHeadDim / kWave;
inline constexpr float kNoMaximum = -1e30f;  // of a wave without keys; finite, so that differences are never NaN

// Loads that are under way together: memory answers them in the time of one.
inline constexpr int kElementsAhead = 64;
inline constexpr int kKeysAhead = 8;

GPU_FUNCTION inline float capped(const AttentionArgs& a, float score) {
  return a.softcap > 0 ? a.softcap * tanh(score / a.softcap) : score;
}

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
  return capped(a, sum);
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

// The token's own key and value where they are not in the cache yet.
struct FreshKey {
  const float* key;  // null: there is none
  const float* value;
};

// One more key for a wave's running output.
GPU_FUNCTION inline void add_fresh(const AttentionArgs& a, const float* q, const FreshKey& fresh, float& maximum,
                                   float& sum, float* output) {
  float score = 0;
  for (i32 d = static_cast<i32>(lane()); d < a.kv.dim; d += static_cast<i32>(kWave))
    score = fma(q[d], fresh.key[d], score);
  score = capped(a, wave_sum(score));
  const float highest = max_of(maximum, score), factor = exp(maximum - highest), weight = exp(score - highest);
  maximum = highest;
  sum = sum * factor + weight;
#pragma unroll
  for (u32 i = 0; i < kDimsPerLane; ++i) {
    const i32 d = static_cast<i32>(i * kWave + lane());
    output[i] = output[i] * factor + (d < a.kv.dim ? weight * fresh.value[d] : 0);
  }
}

// The block's share of the keys [first, last) of a sequence, with `q` in the block's memory.
template <bool scaled>
GPU_FUNCTION inline void attend(const AttentionArgs& a, const float* q, i32 token, i32 sequence, i32 first, i32 last,
                                const FreshKey& fresh) {
  GPU_SHARED(float, outputs, kAttentionWaves* kMaxHeadDim);
  GPU_SHARED(float, maxima, kAttentionWaves);
  GPU_SHARED(float, sums, kAttentionWaves);
  const i32 head = static_cast<i32>(block_index().y), kv_head = head / (a.q.heads / a.kv.heads), dim = a.kv.dim;
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
  // The last wave has the fewest keys.
  if (fresh.key != nullptr && wave_index() == kAttentionWaves - 1) add_fresh(a, q, fresh, maximum, sum, output);
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

GPU_FUNCTION inline i32 first_in_window(const AttentionArgs& a, i32 position) {
  return a.window > 0 ? max_of(0, position + 1 - a.window) : 0;
}

template <bool scaled>
GPU_FUNCTION inline void attention(const AttentionArgs& a) {
  GPU_SHARED(float, q, kMaxHeadDim);
  const i32 token = static_cast<i32>(block_index().x), head = static_cast<i32>(block_index().y);
  const i32 sequence = a.sequence[token], position = a.positions[token];
  const float* x = a.q.data + token * a.q.token_stride + head * a.q.head_stride;
  for (i32 d = static_cast<i32>(thread_index()); d < a.kv.dim; d += static_cast<i32>(kAttentionThreads))
    q[d] = x[d] * a.scale;
  barrier();
  const bool known = in_table(a.table, a.kv, sequence, position);  // a token that is not has no keys, and gives zeros
  const i32 first = first_in_window(a, position);
  attend<scaled>(a, q, token, sequence, first, known ? position + 1 : first, {nullptr, nullptr});
}

// The same of one token whose key and value are not in the cache yet. Each block turns and rounds them for itself; one
// of those that share a KV head writes them down, for later launches.
template <bool scaled>
GPU_FUNCTION inline void attention_step(const AttentionStepArgs& step) {
  GPU_SHARED(float, q, kMaxHeadDim);
  GPU_SHARED(float, key, kMaxHeadDim);
  GPU_SHARED(float, value, kMaxHeadDim);
  const AttentionArgs& a = step.attention;
  static_assert(kMaxHeadDim <= kAttentionThreads);
  const i32 head = static_cast<i32>(block_index().y), group = a.q.heads / a.kv.heads, kv_head = head / group;
  const i32 sequence = a.sequence[0], position = a.positions[0];
  const i32 d = static_cast<i32>(thread_index()), safe = min_of(d, a.kv.dim - 1);
  const bool inside = d < a.kv.dim;
  const float* k = step.k.data + kv_head * step.k.head_stride;
  const float* v = step.v.data + kv_head * step.v.head_stride;
  const Turn turn = turn_of(step.rope, safe, position);
  const KvElement own_key = kv_element<scaled>(turned(step.rope, k, safe, turn), inside);
  const KvElement own_value = kv_element<scaled>(v[safe], inside);
  if (inside) {
    q[d] = turned(step.rope, a.q.data + head * a.q.head_stride, d, turn) * a.scale;
    key[d] = own_key.read;
    value[d] = own_value.read;
  }
  const bool known = in_table(a.table, a.kv, sequence, position);
  if (known && inside && head % group == 0 && block_index().z == 0) {
    const i32 page = page_of(a.table, a.kv, sequence, position), slot = position % a.kv.page;
    if (page >= 0 && page < a.kv.pages) {
      store_key<scaled>(a.keys, a.kv, key_place(a.kv, page, kv_head, slot), d, own_key);
      store_value<scaled>(a.values, value_place(a.kv, page, kv_head, slot), d, own_value);
    }
  }
  barrier();
  const i32 first = first_in_window(a, position);
  const bool fresh = known && block_index().z == 0;
  attend<scaled>(a, q, 0, sequence, first, known ? position : first, {fresh ? key : nullptr, fresh ? value : nullptr});
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
GPU_KERNEL(attention_step_f16, 256, gabbro::gpu::AttentionStepArgs, attention_step<false>)
GPU_KERNEL(attention_step_i8, 256, gabbro::gpu::AttentionStepArgs, attention_step<true>)
GPU_KERNEL(attention_merge, 128, gabbro::gpu::AttentionMergeArgs, attention_merge)
