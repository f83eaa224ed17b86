// What a CPU kernel is: an object specialised for one request, run by all workers of the pool together.
#pragma once

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "gabbro/backend_abi.h"

namespace gabbro::cpu {

// What the workers of one team share. Lives in the thread pool.
struct TeamState {
  static constexpr int kLoops = 16;  // dynamic loops between two barriers
  alignas(64) std::atomic<int32_t> arrived{0};
  alignas(64) std::atomic<uint32_t> generation{0};
  struct alignas(64) Counter {
    std::atomic<int64_t> next{0};
  };
  Counter loops[kLoops];
  const std::atomic<bool>* cancel = nullptr;
  int32_t workers = 1;
  int32_t spins = 0;     // pauses in barrier() before the core is given to somebody else
  bool stopped = false;  // what the last barrier() saw of `cancel`: the same for all workers
};

// One of the threads that carry out a launch together. Every worker runs the same kernel code: it must make the same
// sequence of barrier() and parallel_for() calls as the others, also when the launch is cancelled (cancelled() may
// differ between workers, stopped() does not). Nothing may be thrown.
class Worker {
 public:
  Worker(TeamState& team, int index) : team_(team), index_(index) {}

  int index() const { return index_; }
  int count() const { return team_.workers; }
  bool cancelled() const { return team_.cancel != nullptr && team_.cancel->load(std::memory_order_relaxed); }

  // Whether the last barrier() saw a request to cancel.
  bool stopped() const { return team_.stopped; }

  // Waits until all workers are here. What each wrote before is visible to all after.
  void barrier();

  // Calls body(begin, end) for pieces of [0, items), at most `grain` long; each item is done once, by whichever worker
  // is free. Does not wait for the others: call barrier() before reading what they wrote.
  template <class Body>
  void parallel_for(int64_t items, int64_t grain, Body&& body) {
    assert(loop_ < TeamState::kLoops);
    std::atomic<int64_t>& next = team_.loops[loop_++].next;
    for (;;) {
      const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= items || cancelled()) return;
      body(begin, std::min(begin + grain, items));
    }
  }

  // The same for work that streams memory. Half of the items go to the workers in equal runs (`first_run`), known
  // before the loop begins, so that each reads one run of addresses; the rest in pieces that shrink, so that all finish
  // together.
  template <class Body>
  void stream_for(int64_t items, Body&& body) {
    assert(loop_ < TeamState::kLoops);
    std::atomic<int64_t>& next = team_.loops[loop_++].next;
    const int64_t run = first_run(items);
    if (run > 0 && !cancelled()) body(index_ * run, (index_ + 1) * run);
    const int64_t rest = items - run * count();
    int64_t begin = next.load(std::memory_order_relaxed);
    while (begin < rest && !cancelled()) {
      const int64_t length = std::max<int64_t>(1, (rest - begin) / (2 * count()));
      if (!next.compare_exchange_weak(begin, begin + length, std::memory_order_relaxed)) continue;
      body(items - rest + begin, items - rest + std::min(begin + length, rest));
      begin = next.load(std::memory_order_relaxed);
    }
  }
  int64_t first_run(int64_t items) const { return items / (2 * count()); }

 private:
  TeamState& team_;
  int index_;
  int loop_ = 0;
};

class Kernel {
 public:
  virtual ~Kernel() = default;

  // Called by every worker with the same launch. Inputs may be written only where the op says so.
  virtual void run(const abi::Launch& launch, Worker& worker) const = 0;

  // Called by every worker before the barrier that run() waits for: may ask for memory that run() will read first and
  // that no other launch writes, i.e. weights.
  virtual void prefetch(const abi::Launch&, const Worker&) const {}

  size_t scratch_bytes = 0;    // shared by the workers
  std::string implementation;  // "linear q4_0 avx512"
  double bytes = 0;
  double flops = 0;
};

// What a kernel may know of its device when it is made.
struct MakeContext {
  int32_t workers = 1;
};

// Null where there is no kernel for this request. The request lives only during the call.
using MakeKernel = std::unique_ptr<Kernel> (*)(const abi::KernelRequest& request, const MakeContext& context);

struct KernelEntry {
  const char* op;
  MakeKernel make;
};

// One instruction set: everything that is compiled once per set (namespace gabbro::cpu::<name>), behind function
// pointers.
struct IsaTable {
  const char* name;                      // "avx512", "avx2", "scalar": what GABBRO_CPU says
  bool (*supported)();                   // whether this processor and operating system have it
  std::span<const KernelEntry> kernels;  // kernel_table.cc
  // Weights: the packed size of a row-major [rows, columns] (0: read as it lies), and packing by all workers together.
  size_t (*packed_bytes)(DType dtype, int64_t rows, int64_t columns);
  void (*pack)(DType dtype, int64_t rows, int64_t columns, const void* host, void* target, Worker& worker);
};

// All sets in this build, best first.
std::span<const IsaTable* const> isa_tables();

}  // namespace gabbro::cpu
