// Rotary position embedding (Su et al. 2021), and writing keys and values into the paged cache: one kernel for both, so
// that a decoder's step needs one launch. A block a token and some of its heads.
#include "kernels/attention/rope.h"

namespace gabbro::gpu::GABBRO_GPU {

// The threads of a block have elements of a head each, kRopeThreads apart.
inline constexpr i32 kElements = kMaxHeadDim / kRopeThreads;

// Rotations of the thread's elements, the same for all heads of a token.
class Rotations {
 public:
  GPU_FUNCTION Rotations(const RopeArgs& rope, i32 position) : rope_(rope) {
#pragma unroll
    for (i32 i = 0; i < kElements; ++i) rotations_[i] = rotation_of(rope, element(i), position);
  }
  GPU_FUNCTION static i32 element(i32 i) { return i * kRopeThreads + static_cast<i32>(thread_index()); }
  // The thread's element `i` of a head, at index d, rotated.
  GPU_FUNCTION float operator()(const float* x, i32 i, i32 d) const { return rotated(rope_, x, d, rotations_[i]); }

 private:
  const RopeArgs& rope_;
  Rotation rotations_[kElements];
};

GPU_FUNCTION inline void rope_q(const RopeKvArgs& a, const Rotations& rotations, i32 token, i32 head) {
  const float* x = a.q.data + token * a.q.token_stride + head * a.q.head_stride;
  float* y = a.y + (static_cast<i64>(token) * a.q.heads + head) * a.dim;
#pragma unroll
  for (i32 i = 0; i < kElements; ++i) {
    const i32 d = Rotations::element(i);
    if (d < a.dim) y[d] = rotations(x, i, d);
  }
}

// A head of k or of v, to the place of its token in the cache.
template <KvType type>
GPU_FUNCTION inline void write_head(const RopeKvArgs& a, const Rotations& rotations, i32 token, i32 head, bool keys,
                                    i32 page, i32 slot) {
  const HeadsView& view = keys ? a.k : a.v;
  const float* x = view.data + token * view.token_stride + head * view.head_stride;
  if (!keys) {  // of any length: latents are written as values
    for (i32 first = 0; first < a.dim; first += kRopeThreads) {
      const i32 d = first + static_cast<i32>(thread_index());
      const bool inside = d < a.dim;
      const KvElement element = kv_element<type>(x[inside ? d : 0], inside);
      if (inside) store_value<type>(a.values, value_place<type>(a.kv, page, head, slot), d, element);
    }
    return;
  }
#pragma unroll
  for (i32 i = 0; i < kElements; ++i) {
    if (i * kRopeThreads >= a.dim) break;
    const i32 d = Rotations::element(i);
    const bool inside = d < a.dim;
    const KvElement element = kv_element<type>(rotations(x, i, inside ? d : 0), inside);
    if (inside) store_key<type>(a.keys, a.kv, key_slot<type>(a.kv, page, head, slot), d, element);
  }
}

// A cache of the first type, or of one of the others.
template <KvType type, KvType... others>
GPU_FUNCTION inline void write_head_of(const RopeKvArgs& a, const Rotations& rotations, i32 token, i32 head, bool keys,
                                       i32 page, i32 slot) {
  if (sizeof...(others) == 0 || a.type == type) return write_head<type>(a, rotations, token, head, keys, page, slot);
  if constexpr (sizeof...(others) > 0) write_head_of<others...>(a, rotations, token, head, keys, page, slot);
}

template <KvType... types>
GPU_FUNCTION inline void rope_kv(const RopeKvArgs& a) {
  const i32 token = static_cast<i32>(block_index().x), position = a.positions == nullptr ? 0 : a.positions[token];
  const i32 first = static_cast<i32>(block_index().y) * a.heads_of_block;
  const i32 end = min_of(first + a.heads_of_block, a.q.heads + a.k.heads + a.v.heads);
  const Rotations rotations(a.rope, position);
  i32 head = first;
  for (; head < min_of(end, a.q.heads); ++head) rope_q(a, rotations, token, head);
  if (head >= end) return;
  // Nothing is written where the sequence, position or page is outside: such a token is padding.
  const i32 sequence = a.sequence[token];
  if (!in_table(a.table, a.kv, sequence, position)) return;
  const i32 page = page_of(a.table, a.kv, sequence, position);
  if (page < 0 || page >= a.kv.pages) return;
  for (; head < end; ++head) {
    const i32 own = head - a.q.heads;
    const bool keys = own < a.k.heads;
    const i32 side_head = keys ? own : own - a.k.heads, slot = position % a.kv.page;
    write_head_of<types...>(a, rotations, token, side_head, keys, page, slot);
  }
}

// Keys of many tokens, to a cache of f16, in which neighboring tokens are contiguous and elements of a head strided: a
// block transposes kKeyTokens of a head in its memory and writes them token by token.
GPU_FUNCTION inline void rope_keys(const RopeKvArgs& a) {
  constexpr i32 kPitch = kMaxHeadDim + 2;  // tokens fall into different banks
  constexpr i32 kTogether = 8;             // tokens that are loaded before the first is rotated
  static_assert(kKeyTokens % kTogether == 0);
  GPU_SHARED(Half, tile, kKeyTokens * kPitch);
  GPU_SHARED(i64, places, kKeyTokens);  // of the first element; -1: the token has none
  const i32 first = static_cast<i32>(block_index().x) * kKeyTokens, head = static_cast<i32>(block_index().y);
  const i32 thread = static_cast<i32>(thread_index()), threads = static_cast<i32>(block_size());
  if (thread < kKeyTokens) {
    const i32 token = min_of(first + thread, a.tokens - 1), sequence = a.sequence[token], position = a.positions[token];
    const bool known = first + thread < a.tokens && in_table(a.table, a.kv, sequence, position);
    const i32 page = known ? page_of(a.table, a.kv, sequence, position) : -1;
    const bool inside = page >= 0 && page < a.kv.pages;
    places[thread] = inside ? key_slot(a.kv, page, head, position & (a.kv.page - 1)).element : -1;
  }
  for (i32 d = thread; d < a.dim; d += threads) {
    const i32 other = partner(a.rope, d);
    for (i32 begin = 0; begin < kKeyTokens; begin += kTogether) {
      float own[kTogether], with[kTogether];
      i32 position[kTogether];
#pragma unroll
      for (i32 i = 0; i < kTogether; ++i) {
        const i32 token = min_of(first + begin + i, a.tokens - 1);
        const float* x = a.k.data + token * a.k.token_stride + head * a.k.head_stride;
        own[i] = x[d];
        with[i] = x[other];
        position[i] = a.positions[token];
      }
#pragma unroll
      for (i32 i = 0; i < kTogether; ++i) {
        tile[(begin + i) * kPitch + d] =
            to_half(rotated(a.rope, own[i], with[i], d, rotation_of(a.rope, d, position[i])));
      }
    }
  }
  barrier();
  Half* const keys = static_cast<Half*>(a.keys.data);
  for (i32 i = thread; i < kKeyTokens * a.dim; i += threads) {
    const i32 token = i % kKeyTokens, d = i / kKeyTokens;
    if (places[token] >= 0) keys[places[token] + static_cast<i64>(d) * a.kv.page] = tile[token * kPitch + d];
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU

GPU_KERNEL(rope_keys, 128, gabbro::gpu::RopeKvArgs, rope_keys)
#define GABBRO_ROPE_KV(name, ...) GPU_KERNEL(name, 64, gabbro::gpu::RopeKvArgs, rope_kv<__VA_ARGS__>)

GABBRO_ROPE_KV(rope_kv, gabbro::gpu::KvType::kI8, gabbro::gpu::KvType::kF16)
GABBRO_ROPE_KV(rope_kv_types, gabbro::gpu::KvType::kF32, gabbro::gpu::KvType::kBf16, gabbro::gpu::KvType::kU4)
