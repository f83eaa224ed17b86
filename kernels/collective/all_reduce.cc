// Sums over devices that write into each other's memory; see the header.
#include "kernels/collective/all_reduce.h"

#include "kernels/collective/peer_memory.h"

namespace gabbro::gpu::GABBRO_GPU {

// The vectors of four elements that a block has, of `vectors`.
struct BlockPart {
  i64 first, end;
};
GPU_FUNCTION inline BlockPart part_of_block(i64 vectors) {
  const i64 blocks = grid_size().x, each = (vectors + blocks - 1) / blocks;
  const i64 first = min_of(block_index().x * each, vectors);
  return {first, min_of(first + each, vectors)};
}

struct alignas(16) Four {
  float value[4];
};

// Four elements as f32; zeros after `count`.
template <class T>
GPU_FUNCTION inline Four load_four(const T* x, i64 vector, i64 count) {
  Four four;
#pragma unroll
  for (i64 e = 0; e < 4; ++e) four.value[e] = 4 * vector + e < count ? to_float(x[4 * vector + e]) : 0;
  return four;
}
template <class T>
GPU_FUNCTION inline void store_four(T* y, i64 vector, i64 count, const Four& values) {
#pragma unroll
  for (i64 e = 0; e < 4; ++e) {
    if (4 * vector + e < count) y[4 * vector + e] = from_float<T>(values.value[e]);
  }
}
// In an inbox, whose vectors are aligned.
GPU_FUNCTION inline Four& four_at(float* inbox, i64 vector) { return *reinterpret_cast<Four*>(inbox + 4 * vector); }
GPU_FUNCTION inline const Four& four_at(const float* inbox, i64 vector) {
  return *reinterpret_cast<const Four*>(inbox + 4 * vector);
}

GPU_FUNCTION inline u32* flag_of(const AllReduceArgs& a, u32 owner, u32 phase, u32 writer) {
  const u32 number = (phase * kReduceBlocks + block_index().x) * a.ranks + writer;
  return a.inboxes[owner].flags + number * kFlagStep;
}

inline constexpr u32 kLooks = 64;  // at a flag, before one at the clock and at the failure, which is host memory

// Tells all peers that this block's stores of all_reduce `number` are done, and waits for the peers' blocks of the same
// index. Lane r of the first wave writes the flag at rank r, and looks at the flag of rank r.
GPU_FUNCTION inline void exchange_flags(const AllReduceArgs& a, u32 number, u32 phase) {
  release_block_to_peers();
  if (wave_index() == 0) {
    const u32 peer = lane();
    if (peer < a.ranks) store_flag(flag_of(a, peer, phase, a.rank), number);
    bool waits = peer < a.ranks;
    const u64 begin = ticks();
    for (u32 looks = 1; wave_any(waits); ++looks) {
      // Compares by distance, as numbers wrap around.
      if (waits && static_cast<i32>(load_flag(flag_of(a, a.rank, phase, peer)) - number) >= 0) waits = false;
      if (waits && looks % kLooks == 0) {
        const bool is_late = ticks() - begin > a.most_ticks;
        if (is_late) store_flag(a.failure, 1 + peer);
        if (is_late || load_flag(a.failure) != 0) waits = false;
      }
      pause_before_next_look();
    }
    acquire_flags();
  }
  barrier();
  acquire_from_peers();
}

GPU_FUNCTION inline Four sum_of_ranks(const AllReduceArgs& a, const float* partials, i64 vector) {
  Four sum = four_at(partials, vector);
  for (u32 rank = 1; rank < a.ranks; ++rank) {
    const Four other = four_at(partials + rank * a.capacity, vector);
#pragma unroll
    for (int e = 0; e < 4; ++e) sum.value[e] += other.value[e];
  }
  return sum;
}

template <class T>
GPU_FUNCTION inline void all_reduce_one_shot(const AllReduceArgs& a) {
  const u32 number = a.counters[block_index().x] + 1, half = number & 1;
  const auto* x = static_cast<const T*>(a.x);
  const BlockPart part = part_of_block((a.count + 3) / 4);
  for (i64 i = part.first + thread_index(); i < part.end; i += block_size()) {
    const Four mine = load_four(x, i, a.count);
    // Begins with another peer on each rank, so that no inbox is everyone's first.
    for (u32 step = 0; step < a.ranks; ++step) {
      const u32 peer = (a.rank + step) % a.ranks;
      float* const inbox = a.inboxes[peer].partials + (half * a.ranks + a.rank) * a.capacity;
      four_at(inbox, i) = mine;
    }
  }
  exchange_flags(a, number, 0);
  const float* const partials = a.inboxes[a.rank].partials + half * a.ranks * a.capacity;
  for (i64 i = part.first + thread_index(); i < part.end; i += block_size())
    store_four(static_cast<T*>(a.y), i, a.count, sum_of_ranks(a, partials, i));
  if (thread_index() == 0) a.counters[block_index().x] = number;
}

// Slices are of whole vectors. A block has the same part of each slice, so that blocks of one index wait for each other
// alone.
template <class T>
GPU_FUNCTION inline void all_reduce_two_shot(const AllReduceArgs& a) {
  const u32 number = a.counters[block_index().x] + 1, half = number & 1;
  const i64 vectors = (a.count + 3) / 4, slice = (vectors + a.ranks - 1) / a.ranks;
  const BlockPart part = part_of_block(slice);
  const auto* x = static_cast<const T*>(a.x);
  for (u32 step = 0; step < a.ranks; ++step) {
    const u32 peer = (a.rank + step) % a.ranks;
    float* const inbox = a.inboxes[peer].partials + (half * a.ranks + a.rank) * a.capacity;
    for (i64 i = part.first + thread_index(); i < part.end; i += block_size()) {
      const i64 at = peer * slice + i;
      if (at < vectors) four_at(inbox, at) = load_four(x, at, a.count);
    }
  }
  exchange_flags(a, number, 0);
  const float* const partials = a.inboxes[a.rank].partials + half * a.ranks * a.capacity;
  for (i64 i = part.first + thread_index(); i < part.end; i += block_size()) {
    const i64 at = a.rank * slice + i;
    if (at >= vectors) continue;
    const Four sum = sum_of_ranks(a, partials, at);
    for (u32 step = 0; step < a.ranks; ++step) {
      float* const inbox = a.inboxes[(a.rank + step) % a.ranks].sums + half * a.capacity;
      four_at(inbox, at) = sum;
    }
  }
  exchange_flags(a, number, 1);
  const float* const sums = a.inboxes[a.rank].sums + half * a.capacity;
  for (u32 rank = 0; rank < a.ranks; ++rank) {
    for (i64 i = part.first + thread_index(); i < part.end; i += block_size()) {
      const i64 at = rank * slice + i;
      if (at < vectors) store_four(static_cast<T*>(a.y), at, a.count, four_at(sums, at));
    }
  }
  if (thread_index() == 0) a.counters[block_index().x] = number;
}

// The words of a peer's two elements; zeros once the wait is given up. All threads wait here, so that they look at the
// clock and at the host's memory rarely: a look of all of them makes the others wait for that long.
GPU_FUNCTION inline void await_words(const AllReduceArgs& a, const u64* words, u32 peer, u32 number, float& x,
                                     float& y) {
  const u64 begin = ticks();
  for (u32 looks = 1; !load_words(words, number, x, y); ++looks) {
    if (looks % kLooksAtWords == 0) {
      const bool is_late = ticks() - begin > a.most_ticks;
      if (is_late) store_flag(a.failure, 1 + peer);
      if (is_late || load_flag(a.failure) != 0) {
        x = y = 0;
        return;
      }
    }
    pause_before_next_look();
  }
}

// All blocks count, also those without an element: an element has another block in a sum of another size.
template <class T>
GPU_FUNCTION inline void all_reduce_words(const AllReduceArgs& a) {
  const u32 number = a.counters[block_index().x] + 1, half = number & 1;
  const auto* x = static_cast<const T*>(a.x);
  auto* y = static_cast<T*>(a.y);
  const i64 pairs = (a.count + 1) / 2;
  for (i64 i = block_index().x * block_size() + thread_index(); i < pairs; i += grid_size().x * block_size()) {
    const bool has_second = 2 * i + 1 < a.count;
    const float first = to_float(x[2 * i]), second = has_second ? to_float(x[2 * i + 1]) : 0;
    for (u32 step = 1; step < a.ranks; ++step) {
      const u32 peer = (a.rank + step) % a.ranks;
      store_words(a.inboxes[peer].words + (half * a.ranks + a.rank) * a.capacity + 2 * i, first, second, number);
    }
    float sum = 0, second_sum = 0;
    for (u32 rank = 0; rank < a.ranks; ++rank) {
      float other = first, second_other = second;
      if (rank != a.rank) {
        const u64* const words = a.inboxes[a.rank].words + (half * a.ranks + rank) * a.capacity + 2 * i;
        await_words(a, words, rank, number, other, second_other);
      }
      sum = rank == 0 ? other : sum + other;
      second_sum = rank == 0 ? second_other : second_sum + second_other;
    }
    y[2 * i] = from_float<T>(sum);
    if (has_second) y[2 * i + 1] = from_float<T>(second_sum);
  }
  barrier();  // all threads have read the counter
  if (thread_index() == 0) a.counters[block_index().x] = number;
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_ALL_REDUCE(name, T)                                                                \
  GPU_KERNEL(all_reduce_one_shot_##name, gabbro::gpu::kReduceThreads, gabbro::gpu::AllReduceArgs, \
             all_reduce_one_shot<T>)                                                              \
  GPU_KERNEL(all_reduce_two_shot_##name, gabbro::gpu::kReduceThreads, gabbro::gpu::AllReduceArgs, \
             all_reduce_two_shot<T>)                                                              \
  GPU_KERNEL(all_reduce_words_##name, gabbro::gpu::kReduceThreads, gabbro::gpu::AllReduceArgs, all_reduce_words<T>)
GABBRO_ALL_REDUCE(f32, float)
GABBRO_ALL_REDUCE(f16, gabbro::gpu::Half)
GABBRO_ALL_REDUCE(bf16, gabbro::gpu::BFloat)
