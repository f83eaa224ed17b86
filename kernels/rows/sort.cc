// `sort` and `topk` over the last axis: stable, a NaN after all numbers (so first where the largest come first). Short
// rows are sorted in a block's memory by Batcher's bitonic network (1968); long ones in tiles, which are then merged,
// each thread finding its part of the merged run by bisection (merge path: Green et al. 2012). `topk` never sorts a
// row: of pairs of sorted runs it keeps the smaller half (bitonic top-k: Shanbhag et al. 2018).
#include "kernels/rows/sort.h"

#include "kernels/rows/sort_keys.h"

namespace gabbro::gpu::GABBRO_GPU {

// body(i) for this thread's share of [0, count).
template <class Body>
GPU_FUNCTION inline void for_share(i32 count, Body body) {
  for (i32 i = static_cast<i32>(thread_index()); i < count; i += static_cast<i32>(block_size())) body(i);
}

// One step of the network over `count` keys: puts each pair at a distance of `step` in order. Runs of `size` keys are
// in ascending and descending order by turns; with size == count all of it ascends.
GPU_FUNCTION inline void exchange_pairs(u64* keys, i32 count, i32 size, i32 step, bool all_ascend) {
  for_share(count / 2, [&](i32 pair) {
    const i32 low = 2 * pair - (pair & (step - 1)), high = low + step;
    const bool ascends = all_ascend || (low & size) == 0;
    const u64 a = keys[low], b = keys[high];
    if ((b < a) == ascends) keys[low] = b, keys[high] = a;
  });
  barrier();
}

// Sorts each run of `run` keys: all in ascending order, or by turns. Begins and ends with a barrier.
GPU_FUNCTION inline void sort_runs(u64* keys, i32 count, i32 run, bool all_ascend) {
  barrier();
  for (i32 size = 2; size <= run; size *= 2) {
    for (i32 step = size / 2; step > 0; step /= 2) exchange_pairs(keys, count, size, step, all_ascend && size == run);
  }
}

template <class T>
GPU_FUNCTION inline void sort_rows(const SortArgs& a) {
  GPU_SHARED(u64, keys, kSortTile);
  const auto* x = static_cast<const T*>(a.x);
  auto* values = static_cast<T*>(a.values);
  const i64 first_row = static_cast<i64>(block_index().x) * (kSortTile / a.run);
  for_share(kSortTile, [&](i32 i) {
    const i64 row = first_row + i / a.run, column = i % a.run;
    const bool inside = row < a.rows && column < a.columns;
    keys[i] = inside ? key_of(x[row * a.columns + column], column, a.flip) : kNoKey;
  });
  sort_runs(keys, kSortTile, a.run, true);
  for_share(kSortTile, [&](i32 i) {
    const i64 row = first_row + i / a.run, column = i % a.run;
    if (row >= a.rows || column >= a.columns) return;
    const u32 place = place_of(keys[i]);
    a.indices[row * a.columns + column] = static_cast<i32>(place);
    values[row * a.columns + column] = x[row * a.columns + place];
  });
}

template <class T>
GPU_FUNCTION inline void sort_tiles(const SortArgs& a) {
  GPU_SHARED(u64, keys, kSortTile);
  const i64 tiles = (a.columns + kSortTile - 1) / kSortTile, row = block_index().x / tiles;
  const i64 begin = block_index().x % tiles * kSortTile;
  const i32 count = static_cast<i32>(min_of<i64>(kSortTile, a.columns - begin));
  const T* x = static_cast<const T*>(a.x) + row * a.columns;
  for_share(kSortTile, [&](i32 i) { keys[i] = i < count ? key_of(x[begin + i], begin + i, a.flip) : kNoKey; });
  sort_runs(keys, kSortTile, kSortTile, true);
  for_share(count, [&](i32 i) { a.keys[row * a.columns + begin + i] = keys[i]; });
}

GPU_FUNCTION inline void sort_merge(const MergeArgs& a) {
  const i64 threads = (a.columns + kMergedByThread - 1) / kMergedByThread, row = global_index() / threads;
  if (row >= a.rows) return;
  const i64 begin = global_index() % threads * kMergedByThread;
  const i64 base = begin / (2 * a.run) * (2 * a.run), place = begin - base;
  const u64* left = a.from + row * a.columns + base;
  const i64 left_count = min_of(a.run, a.columns - base);
  const u64* right = left + left_count;
  const i64 right_count = min_of(a.run, a.columns - base - left_count);
  // How many of the first `place` merged keys come from the left.
  i64 low = max_of<i64>(0, place - right_count), high = min_of(place, left_count);
  while (low < high) {
    const i64 middle = (low + high) / 2;
    if (left[middle] < right[place - 1 - middle]) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  i64 l = low, r = place - low;
  u64* to = a.to + row * a.columns + begin;
  for (i32 i = 0; i < kMergedByThread && l + r < left_count + right_count; ++i) {
    const bool from_left = r >= right_count || (l < left_count && left[l] < right[r]);
    to[i] = from_left ? left[l++] : right[r++];
  }
}

// Keeps the smallest `run` of the `tile` keys, in ascending order.
GPU_FUNCTION inline void keep_first(u64* keys, i32 tile, i32 run) {
  constexpr i32 kMost = kSortTile / 2 / static_cast<i32>(kSortThreads);
  sort_runs(keys, tile, run, false);
  for (i32 count = tile; count > run;) {
    count /= 2;
    // A run that ascends and one that descends: the smaller of each pair are the smallest, and a bitonic run.
    u64 kept[kMost];
#pragma unroll
    for (i32 n = 0; n < kMost; ++n) {
      const i32 i = static_cast<i32>(thread_index() + static_cast<u32>(n) * block_size());
      const i32 at = i / run * 2 * run + i % run;
      kept[n] = i < count ? min_of(keys[at], keys[at + run]) : kNoKey;
    }
    barrier();
#pragma unroll
    for (i32 n = 0; n < kMost; ++n) {
      const i32 i = static_cast<i32>(thread_index() + static_cast<u32>(n) * block_size());
      if (i < count) keys[i] = kept[n];
    }
    barrier();
    for (i32 step = run / 2; step > 0; step /= 2) exchange_pairs(keys, count, run, step, count == run);
  }
}

// `load(column)` is the key at a column of the block's row.
template <class Load>
GPU_FUNCTION inline void topk_of(const TopkArgs& a, Load load) {
  GPU_SHARED(u64, keys, kSortTile);
  const i64 begin = block_index().x % a.tiles * a.tile;
  for_share(a.tile, [&](i32 i) { keys[i] = begin + i < a.columns ? load(begin + i) : kNoKey; });
  keep_first(keys, a.tile, a.run);
  for_share(a.run, [&](i32 i) { a.keys[static_cast<i64>(block_index().x) * a.run + i] = keys[i]; });
}

template <class T>
GPU_FUNCTION inline void topk(const TopkArgs& a) {
  const T* x = static_cast<const T*>(a.x) + block_index().x / a.tiles * a.columns;
  topk_of(a, [&](i64 column) { return key_of(x[column], column, a.flip); });
}

GPU_FUNCTION inline void topk_keys(const TopkArgs& a) {
  const u64* from = static_cast<const u64*>(a.x) + block_index().x / a.tiles * a.columns;
  topk_of(a, [&](i64 column) { return from[column]; });
}

template <class T>
GPU_FUNCTION inline void sorted(const SortedArgs& a) {
  const i64 at = global_index();
  if (at >= a.total) return;
  const i64 row = at / a.count;
  const u32 place = place_of(a.keys[row * a.pitch + at % a.count]);
  a.indices[at] = static_cast<i32>(place);
  static_cast<T*>(a.values)[at] = static_cast<const T*>(a.x)[row * a.columns + place];
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_SORT(name, T)                                                                     \
  GPU_KERNEL(sort_##name, gabbro::gpu::kSortThreads, gabbro::gpu::SortArgs, sort_rows<T>)        \
  GPU_KERNEL(sort_tiles_##name, gabbro::gpu::kSortThreads, gabbro::gpu::SortArgs, sort_tiles<T>) \
  GPU_KERNEL(topk_##name, gabbro::gpu::kSortThreads, gabbro::gpu::TopkArgs, topk<T>)             \
  GPU_KERNEL(sorted_##name, 256, gabbro::gpu::SortedArgs, sorted<T>)
GABBRO_SORT(f32, float)
GABBRO_SORT(f16, gabbro::gpu::Half)
GABBRO_SORT(bf16, gabbro::gpu::BFloat)
GABBRO_SORT(i32, gabbro::gpu::i32)

GPU_KERNEL(sort_merge, 256, gabbro::gpu::MergeArgs, sort_merge)
GPU_KERNEL(topk_keys, gabbro::gpu::kSortThreads, gabbro::gpu::TopkArgs, topk_keys)
