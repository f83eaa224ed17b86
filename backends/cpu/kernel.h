// A CPU kernel: an object specialized for one request, run by all workers of the pool together.
#pragma once

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "backends/common/kernel_table.h"
#include "gabbro/backend_abi.h"

namespace gabbro::cpu {

// State shared by the workers of a team. Lives in the thread pool.
struct TeamState {
  static constexpr int kLoops = 16;  // dynamic loops between two barriers
  alignas(64) std::atomic<int32_t> arrived{0};
  alignas(64) std::atomic<uint32_t> generation{0};  // barriers passed
  bool stopped = false;                             // value of `cancel` at the last barrier(), the same for all workers
  // Counters of loops, in two sets: one is in use, the other, used before the last barrier, is being reset.
  struct alignas(64) Counter {
    std::atomic<int64_t> next{0};
  };
  Counter loops[2][kLoops];
  // For stream_for: items taken from the front (low half) and from the back (high half) of each worker's run.
  struct alignas(64) Taken {
    std::atomic<uint64_t> items[2] = {0, 0};
  };
  alignas(64) std::unique_ptr<Taken[]> taken;  // by worker
  const std::atomic<bool>* cancel = nullptr;
  int32_t workers = 1;
  int32_t spins = 0;  // polls in barrier() before the thread yields its core
};

// One of the threads that carry out a launch together. Every worker runs the same kernel code: it must make the same
// sequence of barrier() and parallel_for() calls as the others, also when the launch is canceled (canceled() may
// differ between workers, stopped() does not). Nothing may be thrown.
class Worker {
 public:
  Worker(TeamState& team, int index)
      : team_(team), index_(index), set_(team.generation.load(std::memory_order_relaxed) % 2) {}

  int index() const { return index_; }
  int count() const { return team_.workers; }
  bool canceled() const { return team_.cancel != nullptr && team_.cancel->load(std::memory_order_relaxed); }

  // Whether the last barrier() saw a request to cancel.
  bool stopped() const { return team_.stopped; }

  // Waits until all workers are here. Earlier writes of each are visible to all after.
  void barrier();

  // Prefetches memory that this worker will read soon and that is not written until then, such as weights: its
  // beginning at once, the rest while the worker waits in barriers.
  void expect(std::span<const std::byte> memory);

  // Calls body(begin, end) for pieces of [0, items), at most `grain` long; the next free worker takes the next piece.
  // Does not wait for the other workers: call barrier() before reading their results.
  template <class Body>
  void parallel_for(int64_t items, int64_t grain, Body&& body) {
    assert(loop_ < TeamState::kLoops);
    std::atomic<int64_t>& next = team_.loops[set_][loop_++].next;
    const bool alone = count() == 1;  // an atomic addition waits until all stores have reached the cache
    for (int64_t first = 0;; first += grain) {
      const int64_t begin = alone ? first : next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= items || canceled()) return;
      body(begin, std::min(begin + grain, items));
    }
  }

  // For work that streams memory, once between two barriers. Each worker has a run of items, known before the
  // loop begins, and works through it from the front, so that it reads one stream of addresses (each new one costs
  // about a microsecond until the processor's prefetcher is up to speed); a worker that is done helps the others, from
  // the back, one by one. body(begin, end) gets up to `together` neighbors.
  template <class Body>
  void stream_for(int64_t items, int together, Body&& body) {
    assert(!streamed_ && items < int64_t{1} << 31);
    streamed_ = true;
    for (Range range; !(range = take_front(index_, items, together)).empty() && !canceled();) {
      body(range.begin, range.end);
    }
    for (int step = 1; step < count(); ++step) {
      const int other = (index_ + step) % count();
      for (int64_t item; (item = take_back(other, items)) >= 0 && !canceled();) body(item, item + 1);
    }
  }
  int64_t run_begin(int worker, int64_t items) const { return worker * items / count(); }

 private:
  struct Range {
    int64_t begin = 0, end = 0;
    bool empty() const { return begin == end; }
  };

  Range take_front(int worker, int64_t items, int together) {
    const int64_t begin = run_begin(worker, items), length = run_begin(worker + 1, items) - begin;
    std::atomic<uint64_t>& taken = team_.taken[worker].items[set_];
    uint64_t now = taken.load(std::memory_order_relaxed);
    for (;;) {
      const auto front = static_cast<int64_t>(now & 0xffffffff), back = static_cast<int64_t>(now >> 32);
      const int64_t count = std::min<int64_t>(together, length - front - back);
      if (count <= 0) return {};
      if (taken.compare_exchange_weak(now, now + static_cast<uint64_t>(count), std::memory_order_relaxed)) {
        return {begin + front, begin + front + count};
      }
    }
  }

  int64_t take_back(int worker, int64_t items) {
    const int64_t begin = run_begin(worker, items), length = run_begin(worker + 1, items) - begin;
    std::atomic<uint64_t>& taken = team_.taken[worker].items[set_];
    uint64_t now = taken.load(std::memory_order_relaxed);
    for (;;) {
      const auto front = static_cast<int64_t>(now & 0xffffffff), back = static_cast<int64_t>(now >> 32);
      if (front + back >= length) return -1;
      if (taken.compare_exchange_weak(now, now + (uint64_t{1} << 32), std::memory_order_relaxed))
        return begin + length - 1 - back;
    }
  }

  void wait_for_others(uint32_t generation);
  void reset_counters();
  bool fetch_expected();

  TeamState& team_;
  int index_;
  uint32_t set_;  // index of the set of counters in use
  int loop_ = 0;
  bool streamed_ = false;
  const std::byte* expected_ = nullptr;  // rest of the memory of expect(), not yet prefetched
  const std::byte* expected_end_ = nullptr;
};

class Kernel {
 public:
  virtual ~Kernel() = default;

  // Called by every worker with the same launch. Inputs may be written only where the op says so.
  virtual void run(const abi::Launch& launch, Worker& worker) const = 0;

  // The weights that run() reads first on this worker, up to the first gap between them; empty if there are none.
  virtual std::span<const std::byte> first_weights(const abi::Launch&, const Worker&) const { return {}; }

  size_t scratch_bytes = 0;    // shared by the workers
  std::string implementation;  // "linear q4_0 avx512"
  double bytes = 0;
  double flops = 0;
};

// Facts of the device for making a kernel.
struct MakeContext {
  int32_t workers = 1;
};

// Null where there is no kernel for this request. The request lives only during the call.
using MakeKernel = std::unique_ptr<Kernel> (*)(const abi::KernelRequest& request, const MakeContext& context);

using KernelEntry = abi::KernelEntry<MakeKernel>;
using abi::kInPlace;

// One instruction set: everything that is compiled once per set (namespace gabbro::cpu::<name>), behind function
// pointers.
struct IsaTable {
  const char* name;                      // "avx512", "avx2", "scalar": what GABBRO_CPU says
  bool (*supported)();                   // whether this processor and operating system have it
  std::span<const KernelEntry> kernels;  // kernel_table.cc
  // Weights: the packed size of a row-major [rows, columns] (0: read in place), and packing by all workers together.
  size_t (*packed_bytes)(DType dtype, int64_t rows, int64_t columns);
  void (*pack)(DType dtype, int64_t rows, int64_t columns, const void* host, void* target, Worker& worker);
};

// All sets in this build, best first.
std::span<const IsaTable* const> isa_tables();

}  // namespace gabbro::cpu
