// Rotary position embedding (Su et al. 2021), and writing keys and values into the paged cache: one kernel for both, so
// that a decoder's step needs one launch. A block of one wave a head.
#include "kernels/kv_access.h"

namespace gabbro::gpu::GABBRO_GPU {

// Element d of a head, turned by the angle position · inverse_frequency.
GPU_FUNCTION inline float rotated(const RopeArgs& rope, const float* x, i32 d, i32 position) {
  if (d >= 2 * rope.half) return x[d];
  const i32 pair = rope.interleaved ? d / 2 : d % rope.half;
  const bool first = rope.interleaved ? d % 2 == 0 : d < rope.half;
  const float angle = static_cast<float>(position) * rope.inverse_frequencies[pair];
  const float c = cos(angle) * rope.magnitude, s = sin(angle) * rope.magnitude;
  const i32 other = rope.interleaved ? d ^ 1 : first ? d + rope.half : d - rope.half;
  return first ? x[d] * c - x[other] * s : x[d] * c + x[other] * s;
}

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

GPU_FUNCTION inline void rope_kv(const RopeKvArgs& a) {
  const i32 token = static_cast<i32>(block_index().x);
  i32 head = static_cast<i32>(block_index().y);
  const i32 position = a.positions == nullptr ? 0 : a.positions[token];
  if (head < a.q.heads) {
    const float* x = a.q.data + token * a.q.token_stride + head * a.q.head_stride;
    float* y = a.y + (static_cast<i64>(token) * a.q.heads + head) * a.dim;
    for (i32 d = static_cast<i32>(thread_index()); d < a.dim; d += static_cast<i32>(block_size())) {
      y[d] = rotated(a.rope, x, d, position);
    }
    return;
  }
  head -= a.q.heads;
  const bool keys = head < a.k.heads;
  if (!keys) head -= a.k.heads;
  const HeadsView& view = keys ? a.k : a.v;
  // Nothing is written where the sequence, position or page is outside: such a token is padding.
  const i32 sequence = a.sequence[token];
  if (!in_table(a.table, a.kv, sequence, position)) return;
  const i32 page = page_of(a.table, a.kv, sequence, position);
  if (page < 0 || page >= a.kv.pages) return;
  const i32 slot = position % a.kv.page;
  const float* x = view.data + token * view.token_stride + head * view.head_stride;
  const i32 threads = static_cast<i32>(block_size());
  for (i32 base = 0; base < a.dim; base += threads) {
    const i32 d = base + static_cast<i32>(thread_index());
    const bool inside = d < a.dim;
    const i32 safe = inside ? d : 0;
    if (keys) {
      const KeyPlace place = key_place(a.kv, page, head, slot);
      const float value = a.rope.inverse_frequencies == nullptr ? x[safe] : rotated(a.rope, x, safe, position);
      store_kv(a.keys, place.element + static_cast<i64>(safe) * a.kv.page,
               place.scale + static_cast<i64>(safe / kScaleGroup) * a.kv.page, value, inside, safe % kScaleGroup == 0);
    } else {
      const ValuePlace place = value_place(a.kv, page, head, slot);
      store_kv(a.values, place.element + safe, place.scale + safe / kScaleGroup, x[safe], inside,
               safe % kScaleGroup == 0);
    }
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU

GPU_KERNEL(rope_kv, 64, gabbro::gpu::RopeKvArgs, rope_kv)
