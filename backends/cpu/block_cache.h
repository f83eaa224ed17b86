// Blocks of huge pages that were freed, for the next that asks for as much: the system clears pages before it gives
// them out, which takes as long as most kernels take to write them.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>

namespace gabbro::cpu {

class BlockCache {
 public:
  static constexpr size_t kHugePage = size_t{2} << 20;
  static constexpr size_t kLargest = 16 * kHugePage;  // beyond, what computes on them is slower than their clearing
  static constexpr size_t kMost = 32 * kHugePage;     // together; the oldest go first

  BlockCache() = default;
  ~BlockCache() { clear(); }
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  // A block of `bytes`, a multiple of a huge page; null if there is none.
  void* take(size_t bytes);
  // Memory of aligned_alloc: kept, or freed where it is too large.
  void put(void* pointer, size_t bytes);
  size_t clear();  // frees all, and says how many bytes that was
  size_t bytes() const { return bytes_; }

 private:
  struct Block {
    void* pointer;
    size_t bytes;
  };

  std::mutex mutex_;
  std::deque<Block> blocks_;       // the oldest first
  std::atomic<size_t> bytes_ = 0;  // each allocation asks for it without the mutex
};

}  // namespace gabbro::cpu
