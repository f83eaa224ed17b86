// Rotary position embedding (Su et al. 2021), and writing keys and values into the paged cache: one kernel for both, so
// that a decoder's step needs one launch. A block of one wave a head.
#include "kernels/rope.h"

namespace gabbro::gpu::GABBRO_GPU {

template <bool scaled>
GPU_FUNCTION inline void write_head(const RopeKvArgs& a, i32 token, i32 head, i32 position, bool keys) {
  const HeadsView& view = keys ? a.k : a.v;
  // Nothing is written where the sequence, position or page is outside: such a token is padding.
  const i32 sequence = a.sequence[token];
  if (!in_table(a.table, a.kv, sequence, position)) return;
  const i32 page = page_of(a.table, a.kv, sequence, position);
  if (page < 0 || page >= a.kv.pages) return;
  const i32 slot = position % a.kv.page, threads = static_cast<i32>(block_size());
  const float* x = view.data + token * view.token_stride + head * view.head_stride;
  for (i32 base = 0; base < a.dim; base += threads) {
    const i32 d = base + static_cast<i32>(thread_index());
    const bool inside = d < a.dim, turns = keys && a.rope.inverse_frequencies != nullptr;
    const i32 safe = inside ? d : 0;
    const KvElement element = kv_element<scaled>(turns ? rotated(a.rope, x, safe, position) : x[safe], inside);
    if (!inside) continue;
    if (keys) {
      store_key<scaled>(a.keys, a.kv, key_place(a.kv, page, head, slot), d, element);
    } else {
      store_value<scaled>(a.values, value_place(a.kv, page, head, slot), d, element);
    }
  }
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
  const bool scaled = (keys ? a.keys : a.values).scale != nullptr;
  if (scaled) {
    write_head<true>(a, token, head, position, keys);
  } else {
    write_head<false>(a, token, head, position, keys);
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU

GPU_KERNEL(rope_kv, 64, gabbro::gpu::RopeKvArgs, rope_kv)
