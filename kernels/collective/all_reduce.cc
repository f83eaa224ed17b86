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

// Whether vector number `vector` of four f32 can be accessed at once.
template <class T>
GPU_FUNCTION inline bool is_whole(const void* x, i64 vector, i64 count) {
  return sizeof(T) == sizeof(float) && 4 * vector + 4 <= count && reinterpret_cast<u64>(x) % sizeof(Four) == 0;
}

// Four elements as f32; zeros after `count`.
template <class T>
GPU_FUNCTION inline Four load_four(const void* x, i64 vector, i64 count) {
  if (is_whole<T>(x, vector, count)) return static_cast<const Four*>(x)[vector];
  Four four;
#pragma unroll
  for (i64 e = 0; e < 4; ++e)
    four.value[e] = 4 * vector + e < count ? to_float(static_cast<const T*>(x)[4 * vector + e]) : 0;
  return four;
}
// The addend of element i, or 0.
template <class T>
GPU_FUNCTION inline float addend_of(const AllReduceArgs& a, i64 i) {
  return a.addend != nullptr && i < a.count ? to_float(static_cast<const T*>(a.addend)[i]) : 0;
}
// Stores what y becomes where `sum` is the sum of the ranks.
template <class T>
GPU_FUNCTION inline void store_result(const AllReduceArgs& a, i64 i, float sum, float addend) {
  if (i >= a.count) return;
  const T rounded = from_float<T>(sum);
  static_cast<T*>(a.y)[i] = a.addend == nullptr ? rounded : from_float<T>(to_float(rounded) + addend);
}
template <class T>
GPU_FUNCTION inline void store_results(const AllReduceArgs& a, i64 vector, const Four& sums) {
  const bool adds = a.addend != nullptr;
  const Four addends = adds ? load_four<T>(a.addend, vector, a.count) : Four{};
  if (is_whole<T>(a.y, vector, a.count)) {
    Four results = sums;
#pragma unroll
    for (int e = 0; e < 4; ++e) results.value[e] = adds ? sums.value[e] + addends.value[e] : sums.value[e];
    static_cast<Four*>(a.y)[vector] = results;
    return;
  }
#pragma unroll
  for (i64 e = 0; e < 4; ++e) store_result<T>(a, 4 * vector + e, sums.value[e], addends.value[e]);
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

// The partials of `writer` in the inbox of `owner`, another rank.
GPU_FUNCTION inline float* partials_of(const AllReduceArgs& a, u32 owner, u32 writer, u32 half) {
  const u32 place = writer < owner ? writer : writer - 1;
  return a.inboxes[owner].partials + (half * (a.ranks - 1) + place) * a.capacity;
}

// Tells all peers that this block's stores are done up to flag `number`: lane r of the first wave writes the flag at
// rank r.
GPU_FUNCTION inline void raise_flags(const AllReduceArgs& a, u32 number, u32 phase) {
  release_block_to_peers();
  if (wave_index() == 0 && lane() < a.ranks) store_flag(flag_of(a, lane(), phase, a.rank), number);
}

// Waits for the peers' blocks of the same index: lane r of the first wave looks at the flag of rank r.
GPU_FUNCTION inline void await_flags(const AllReduceArgs& a, u32 number, u32 phase) {
  if (wave_index() == 0) {
    const u32 peer = lane();
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

// The sum of a vector of the partials that are in the inbox, and of this rank's own x.
template <class T>
GPU_FUNCTION inline Four sum_of_ranks(const AllReduceArgs& a, u32 half, i64 vector) {
  Four sum = {};
  for (u32 rank = 0; rank < a.ranks; ++rank) {
    const Four other =
        rank == a.rank ? load_four<T>(a.x, vector, a.count) : four_at(partials_of(a, a.rank, rank, half), vector);
#pragma unroll
    for (int e = 0; e < 4; ++e) sum.value[e] = rank == 0 ? other.value[e] : sum.value[e] + other.value[e];
  }
  return sum;
}

// Stores the vectors [first, end) to the inboxes, as many as the block's threads hold at once.
template <class T>
GPU_FUNCTION inline void send_vectors(const AllReduceArgs& a, u32 half, i64 first, i64 end) {
  Four mine[kReduceVectors];
#pragma unroll
  for (u32 v = 0; v < kReduceVectors; ++v) {
    const i64 i = first + v * block_size() + thread_index();
    if (i < end) mine[v] = load_four<T>(a.x, i, a.count);
  }
  // Begins with another peer on each rank, so that no inbox is everyone's first.
  for (u32 next = 1; next < a.ranks; ++next) {
    const u32 peer = (a.rank + next) % a.ranks;
    float* const partials = partials_of(a, peer, a.rank, half);
#pragma unroll
    for (u32 v = 0; v < kReduceVectors; ++v) {
      const i64 i = first + v * block_size() + thread_index();
      if (i < end) four_at(partials, i) = mine[v];
    }
  }
}

// In steps: a block adds up a step while its next one is on the way.
template <class T>
GPU_FUNCTION inline void all_reduce_one_shot(const AllReduceArgs& a) {
  const u32 number = a.counters[block_index().x] + 1, half = number & 1;
  const BlockPart part = part_of_block((a.count + 3) / 4);
  const i64 of_step = kReduceVectors * block_size();
  const auto steps = static_cast<u32>((part.end - part.first + of_step - 1) / of_step);
  for (u32 step = 0; step <= steps; ++step) {
    const i64 first = part.first + step * of_step;
    if (step < steps) {
      send_vectors<T>(a, half, first, min_of(first + of_step, part.end));
      raise_flags(a, number * kReduceSteps + step, 0);
    }
    if (step == 0) continue;
    await_flags(a, number * kReduceSteps + step - 1, 0);
    for (i64 i = first - of_step + thread_index(); i < min_of(first, part.end); i += block_size())
      store_results<T>(a, i, sum_of_ranks<T>(a, half, i));
  }
  barrier();  // all threads have read the counter
  if (thread_index() == 0) a.counters[block_index().x] = number;
}

// Slices are of whole vectors. A block has the same part of each slice, so that blocks of one index wait for each other
// alone.
template <class T>
GPU_FUNCTION inline void all_reduce_two_shot(const AllReduceArgs& a) {
  const u32 number = a.counters[block_index().x] + 1, half = number & 1;
  const u32 last_step = number * kReduceSteps + kReduceSteps - 1;  // as the flags of other launches count
  const i64 vectors = (a.count + 3) / 4, slice = (vectors + a.ranks - 1) / a.ranks;
  const BlockPart part = part_of_block(slice);
  const auto* x = static_cast<const T*>(a.x);
  for (u32 step = 1; step < a.ranks; ++step) {
    const u32 peer = (a.rank + step) % a.ranks;
    float* const inbox = partials_of(a, peer, a.rank, half);
    for (i64 i = part.first + thread_index(); i < part.end; i += block_size()) {
      const i64 at = peer * slice + i;
      if (at < vectors) four_at(inbox, at) = load_four<T>(x, at, a.count);
    }
  }
  raise_flags(a, last_step, 0);
  await_flags(a, last_step, 0);
  for (i64 i = part.first + thread_index(); i < part.end; i += block_size()) {
    const i64 at = a.rank * slice + i;
    if (at >= vectors) continue;
    const Four sum = sum_of_ranks<T>(a, half, at);
    for (u32 step = 0; step < a.ranks; ++step) {
      float* const inbox = a.inboxes[(a.rank + step) % a.ranks].sums + half * a.capacity;
      four_at(inbox, at) = sum;
    }
  }
  raise_flags(a, last_step, 1);
  await_flags(a, last_step, 1);
  const float* const sums = a.inboxes[a.rank].sums + half * a.capacity;
  for (u32 rank = 0; rank < a.ranks; ++rank) {
    for (i64 i = part.first + thread_index(); i < part.end; i += block_size()) {
      const i64 at = rank * slice + i;
      if (at < vectors) store_results<T>(a, at, four_at(sums, at));
    }
  }
  if (thread_index() == 0) a.counters[block_index().x] = number;
}

// The words of a peer's two elements; zeros once the wait is given up.
GPU_FUNCTION inline void await_words(const AllReduceArgs& a, const u64* words, u32 peer, u32 number, float& x,
                                     float& y) {
  const u64 begin = ticks();
  for (u32 looks = 1; !load_words(words, number, x, y); ++looks) {
    if (looks % kLooks == 0) {
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
  const i64 pairs = (a.count + 1) / 2, first_pair = block_index().x * block_size() + thread_index(),
            step = grid_size().x * block_size();
  const auto pair_of = [&](i64 i, float& first, float& second) {
    first = to_float(x[2 * i]);
    second = 2 * i + 1 < a.count ? to_float(x[2 * i + 1]) : 0;
  };
  for (i64 i = first_pair; i < pairs; i += step) {
    float first, second;
    pair_of(i, first, second);
    for (u32 next = 1; next < a.ranks; ++next) {
      const u32 peer = (a.rank + next) % a.ranks;
      store_words(a.inboxes[peer].words + (half * a.ranks + a.rank) * a.capacity + 2 * i, first, second, number);
    }
  }
  for (i64 i = first_pair; i < pairs; i += step) {
    float first, second, sum = 0, second_sum = 0;
    pair_of(i, first, second);
    const float addend = addend_of<T>(a, 2 * i), second_addend = addend_of<T>(a, 2 * i + 1);  // before the wait
    for (u32 rank = 0; rank < a.ranks; ++rank) {
      float other = first, second_other = second;
      if (rank != a.rank) {
        const u64* const words = a.inboxes[a.rank].words + (half * a.ranks + rank) * a.capacity + 2 * i;
        await_words(a, words, rank, number, other, second_other);
      }
      sum = rank == 0 ? other : sum + other;
      second_sum = rank == 0 ? second_other : second_sum + second_other;
    }
    store_result<T>(a, 2 * i, sum, addend);
    store_result<T>(a, 2 * i + 1, second_sum, second_addend);
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
