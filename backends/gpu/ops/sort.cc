// `sort` and `topk` over the last axis.
#include "kernels/rows/sort.h"

#include <algorithm>
#include <bit>

#include "backends/common/sort_request.h"
#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/strided.h"

namespace gabbro::gpu {
namespace {

int64_t tiles_of(int64_t columns, int64_t tile) { return (columns + tile - 1) / tile; }

i32 power_from(int64_t count) { return static_cast<i32>(std::bit_ceil(static_cast<uint64_t>(count))); }

class SortBase : public Kernel {
 protected:
  SortBase(const abi::KernelRequest& request, const abi::SortRequest& sort)
      : sort_(sort), name_(dtype_name(sort.dtype)) {
    implementation = std::string(request.op) + " " + name_;
    const auto element = static_cast<double>(dtype_bytes(sort.dtype, 1));
    bytes = static_cast<double>(sort.rows) *
            (element * static_cast<double>(sort.columns) + (element + 4) * static_cast<double>(sort.count));
  }

  u32 flip() const { return sort_.descending ? ~0u : 0; }

  // Values and places from keys in order.
  void finish(const abi::Launch& launch, const Launcher& run, const api::Function* sorted, const u64* keys,
              int64_t pitch) const {
    const int64_t total = sort_.rows * sort_.count;
    run(sorted, {blocks_for(total, kElementThreads)},
        SortedArgs{.x = input<void>(launch, 0),
                   .keys = keys,
                   .values = output<void>(launch, 0),
                   .indices = output<i32>(launch, 1),
                   .columns = sort_.columns,
                   .pitch = pitch,
                   .count = sort_.count,
                   .total = total});
  }

  abi::SortRequest sort_;
  std::string name_;
};

// Rows that fit in a tile.
class SortRows : public SortBase {
 public:
  SortRows(const abi::KernelRequest& request, const abi::SortRequest& sort, const MakeContext& context)
      : SortBase(request, sort), function_(context.function("sort_" + name_)) {}

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    const i32 length = power_from(sort_.columns);
    run(function_, {blocks_for(sort_.rows, static_cast<u32>(kSortTile / length))},
        SortArgs{.x = input<void>(launch, 0),
                 .values = output<void>(launch, 0),
                 .indices = output<i32>(launch, 1),
                 .rows = sort_.rows,
                 .columns = sort_.columns,
                 .run = length,
                 .flip = flip()});
  }

 private:
  const api::Function* function_;
};

// Longer rows: tiles, then merges from one half of the scratch memory to the other.
class MergeSort : public SortBase {
 public:
  MergeSort(const abi::KernelRequest& request, const abi::SortRequest& sort, const MakeContext& context)
      : SortBase(request, sort),
        tiles_(context.function("sort_tiles_" + name_)),
        merge_(context.function("sort_merge")),
        sorted_(context.function("sorted_" + name_)) {
    scratch_bytes = 2 * static_cast<size_t>(sort.rows * sort.columns) * sizeof(u64);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    u64* keys = static_cast<u64*>(launch.scratch);
    u64* other = keys + sort_.rows * sort_.columns;
    run(tiles_, {static_cast<u32>(sort_.rows * tiles_of(sort_.columns, kSortTile))},
        SortArgs{.x = input<void>(launch, 0),
                 .keys = keys,
                 .rows = sort_.rows,
                 .columns = sort_.columns,
                 .run = kSortTile,
                 .flip = flip()});
    const int64_t threads = sort_.rows * tiles_of(sort_.columns, kMergedByThread);
    for (int64_t length = kSortTile; length < sort_.columns; length *= 2) {
      run(merge_, {blocks_for(threads, kElementThreads)},
          MergeArgs{.from = keys, .to = other, .rows = sort_.rows, .columns = sort_.columns, .run = length});
      std::swap(keys, other);
    }
    finish(launch, run, sorted_, keys, sort_.columns);
  }

 private:
  const api::Function* tiles_;
  const api::Function* merge_;
  const api::Function* sorted_;
};

// Each round leaves of each tile of a row the first `run_` keys, until one tile is left.
class Topk : public SortBase {
 public:
  Topk(const abi::KernelRequest& request, const abi::SortRequest& sort, const MakeContext& context)
      : SortBase(request, sort),
        run_(power_from(sort.count)),
        first_(context.function("topk_" + name_)),
        next_(context.function("topk_keys")),
        sorted_(context.function("sorted_" + name_)) {
    const int64_t first = keys_after(sort.columns), second = keys_after(first);
    second_at_ = sort.rows * first;
    scratch_bytes = static_cast<size_t>(sort.rows * (first + second)) * sizeof(u64);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    u64* to = static_cast<u64*>(launch.scratch);
    u64* other = to + second_at_;
    const void* from = input<void>(launch, 0);
    const api::Function* function = first_;
    for (int64_t columns = sort_.columns;; columns = keys_after(columns)) {
      const i32 tile = tile_of(columns);
      const int64_t tiles = tiles_of(columns, tile);
      run(function, {static_cast<u32>(sort_.rows * tiles)},
          TopkArgs{
              .x = from, .keys = to, .columns = columns, .tiles = tiles, .tile = tile, .run = run_, .flip = flip()});
      from = to;
      function = next_;
      if (tiles == 1) return finish(launch, run, sorted_, to, run_);
      std::swap(to, other);
    }
  }

 private:
  i32 tile_of(int64_t columns) const { return std::max(2 * run_, power_from(std::min<int64_t>(columns, kSortTile))); }
  int64_t keys_after(int64_t columns) const { return tiles_of(columns, tile_of(columns)) * run_; }

  i32 run_;
  int64_t second_at_ = 0;
  const api::Function* first_;
  const api::Function* next_;
  const api::Function* sorted_;
};

// Whether the kernels' 32-bit counts suffice: blocks of tiles, and of single elements.
bool is_countable(const abi::SortRequest& sort) {
  return sort.rows * tiles_of(sort.columns, kMergedByThread) <= (int64_t{1} << 31) - 1;
}

}  // namespace

std::unique_ptr<Kernel> make_sort(const abi::KernelRequest& request, const MakeContext& context) {
  abi::SortRequest sort;
  if (!read_sort_request(request, sort) || dtype_bytes(sort.dtype, 1) > 4 || sort.count != sort.columns ||
      !is_countable(sort))
    return nullptr;
  if (sort.columns <= kSortTile) return std::make_unique<SortRows>(request, sort, context);
  return std::make_unique<MergeSort>(request, sort, context);
}

std::unique_ptr<Kernel> make_topk(const abi::KernelRequest& request, const MakeContext& context) {
  abi::SortRequest sort;
  if (!read_sort_request(request, sort) || dtype_bytes(sort.dtype, 1) > 4 || !is_countable(sort)) return nullptr;
  if (power_from(sort.count) > kSortTile / 2) return nullptr;  // as much work as sorting
  return std::make_unique<Topk>(request, sort, context);
}

}  // namespace gabbro::gpu
