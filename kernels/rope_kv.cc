// Rotary position embedding (Su et al. 2021), and writing keys and values into the paged cache: one kernel for both, so
// that a decoder's step needs one launch. A block a token and some of its heads.
#include "kernels/kv_access.h"

namespace gabbro::gpu::GABBRO_GPU {

// The threads of a block have elements of a head each, kRopeThreads apart.
inline constexpr i32 kElements = kMaxHeadDim / kRopeThreads;

// By which the thread's elements are turned, the same for all heads of a token.
class Turns {
 public:
  GPU_FUNCTION Turns(const RopeArgs& rope, i32 position) : rope_(rope) {
    if (rope.inverse_frequencies == nullptr) return;
#pragma unroll
    for (i32 i = 0; i < kElements; ++i) {
      const i32 d = i * kRopeThreads + static_cast<i32>(thread_index());
      if (d >= 2 * rope.half) continue;
      const float angle =
          static_cast<float>(position) * rope.inverse_frequencies[rope.interleaved ? d / 2 : d % rope.half];
      cos_[i] = cos(angle) * rope.magnitude;
      sin_[i] = sin(angle) * rope.magnitude;
    }
  }
  // The thread's element `i` of a head, number d, turned by the angle position · inverse_frequency.
  GPU_FUNCTION float operator()(const float* x, i32 i, i32 d) const {
    if (rope_.inverse_frequencies == nullptr || d >= 2 * rope_.half) return x[d];
    const bool first = rope_.interleaved ? d % 2 == 0 : d < rope_.half;
    const i32 other = rope_.interleaved ? d ^ 1 : first ? d + rope_.half : d - rope_.half;
    return first ? x[d] * cos_[i] - x[other] * sin_[i] : x[d] * cos_[i] + x[other] * sin_[i];
  }

 private:
  const RopeArgs& rope_;
  float cos_[kElements] = {}, sin_[kElements] = {};
};

// One element to the cache. For i8 the 32 lanes of a group share their scale, so all lanes of the wave come here.
GPU_FUNCTION inline void store_kv(const KvSide& side, i64 element, i64 scale, float value, bool inside,
                                  bool first_of_group) {
  if (side.scale == nullptr) {
    if (inside) static_cast<Half*>(side.data)[element] = to_half(value);
    return;
  }
  float peak = inside ? abs(value) : 0;
  for (u32 step = 1; step < kScaleGroup; step *= 2) peak = max_of(peak, shuffle_xor(peak, step));
  if (!inside) return;
  const Half rounded = to_half(peak / 127);
  const float inverse = to_float(rounded) > 0 ? 1 / to_float(rounded) : 0;  // of what the reader will multiply by
  const float level = min_of(max_of(value * inverse, -127.0f), 127.0f);
  static_cast<i8*>(side.data)[element] = static_cast<i8>(round_to_int(level));
  if (first_of_group) side.scale[scale] = rounded;
}

GPU_FUNCTION inline void rope_q(const RopeKvArgs& a, const Turns& turns, i32 token, i32 head) {
  const float* x = a.q.data + token * a.q.token_stride + head * a.q.head_stride;
  float* y = a.y + (static_cast<i64>(token) * a.q.heads + head) * a.dim;
#pragma unroll
  for (i32 i = 0; i < kElements; ++i) {
    const i32 d = i * kRopeThreads + static_cast<i32>(thread_index());
    if (d < a.dim) y[d] = turns(x, i, d);
  }
}

// A head of k or of v, to the place of its token in the cache.
GPU_FUNCTION inline void write_head(const RopeKvArgs& a, const Turns& turns, i32 token, i32 head, bool keys, i32 page,
                                    i32 slot) {
  const HeadsView& view = keys ? a.k : a.v;
  const float* x = view.data + token * view.token_stride + head * view.head_stride;
#pragma unroll
  for (i32 i = 0; i < kElements; ++i) {
    if (i * kRopeThreads >= a.dim) break;
    const i32 d = i * kRopeThreads + static_cast<i32>(thread_index());
    const bool inside = d < a.dim;
    const i32 safe = inside ? d : 0;
    if (keys) {
      const KeyPlace place = key_place(a.kv, page, head, slot);
      store_kv(a.keys, place.element + static_cast<i64>(safe) * a.kv.page,
               place.scale + static_cast<i64>(safe / kScaleGroup) * a.kv.page, turns(x, i, safe), inside,
               safe % kScaleGroup == 0);
    } else {
      const ValuePlace place = value_place(a.kv, page, head, slot);
      store_kv(a.values, place.element + safe, place.scale + safe / kScaleGroup, x[safe], inside,
               safe % kScaleGroup == 0);
    }
  }
}

GPU_FUNCTION inline void rope_kv(const RopeKvArgs& a) {
  const i32 token = static_cast<i32>(block_index().x), position = a.positions == nullptr ? 0 : a.positions[token];
  const i32 first = static_cast<i32>(block_index().y) * a.heads_of_block;
  const i32 end = min_of(first + a.heads_of_block, a.q.heads + a.k.heads + a.v.heads);
  const Turns turns(a.rope, position);
  i32 head = first;
  for (; head < min_of(end, a.q.heads); ++head) rope_q(a, turns, token, head);
  if (head >= end) return;
  // Nothing is written where the sequence, position or page is outside: such a token is padding.
  const i32 sequence = a.sequence[token];
  if (!in_table(a.table, a.kv, sequence, position)) return;
  const i32 page = page_of(a.table, a.kv, sequence, position);
  if (page < 0 || page >= a.kv.pages) return;
  for (; head < end; ++head) {
    const i32 own = head - a.q.heads;
    const bool keys = own < a.k.heads;
    write_head(a, turns, token, keys ? own : own - a.k.heads, keys, page, position % a.kv.page);
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU

GPU_KERNEL(rope_kv, 64, gabbro::gpu::RopeKvArgs, rope_kv)
