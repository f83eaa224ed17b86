// An opened CPU device: its threads, its instruction set, its memory, and the execution of launch lists.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "backends/cpu/block_cache.h"
#include "backends/cpu/host.h"
#include "backends/cpu/index_fault.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/small_blocks.h"

namespace gabbro::cpu {

// The instruction set to use: the one that `forced` names (null or empty: the best that this processor has). Null, with
// a one-line `reason`, where that is unknown or missing.
const IsaTable* choose_isa(const char* forced, std::string& reason);

// Counts memory handed out from the system's.
class MemoryCount {
 public:
  void allocated(size_t bytes);
  void released(size_t bytes);
  void refused() { ++failures_; }
  uint64_t in_use() const { return in_use_; }
  void reset();  // of peak and counts
  abi::PoolFacts facts() const;

 private:
  std::atomic<uint64_t> in_use_{0}, peak_{0}, allocations_{0}, releases_{0}, failures_{0};
};

class CpuDevice {
 public:
  CpuDevice(const IsaTable& isa, int threads, int cores, uint64_t memory_total)
      : isa_(isa), memory_total_(memory_total), pool_(threads, cores) {}

  // 64-byte aligned; null where there is not so much.
  void* allocate(size_t bytes);
  void free(void* pointer);           // may keep it for the next allocation of its size
  void free_unpooled(void* pointer);  // gives it back to the system
  // Frees what is kept, and returns how many bytes of large blocks that was: small ones count as malloc's heap does.
  size_t trim() {
    small_.clear();
    return kept_.clear();
  }
  abi::PoolFacts memory_facts() const;
  void reset_memory_facts() { memory_.reset(); }

  size_t packed_bytes(DType dtype, int64_t rows, int64_t columns) const;
  void pack(abi::Stream* stream, const abi::PackRequest& request, const void* source, void* target);

  // Null where there is no kernel for the request.
  std::unique_ptr<Kernel> make_kernel(const abi::KernelRequest& request);

  // Wakes the pool once for the whole list, unless the launches are small. False: canceled. Throws StatusError
  // kBadIndex if a kernel found an index that is out of range.
  bool execute(abi::Stream* stream, const abi::Launch* launches, int32_t count, const std::atomic<bool>* cancel);

 private:
  const IsaTable& isa_;
  uint64_t memory_total_;
  MemoryCount memory_;
  BlockCache kept_;
  SmallBlocks small_;
  ThreadPool pool_;
  IndexFault index_fault_;
};

}  // namespace gabbro::cpu
