// Blocks of at most a page that were freed, for the next that asks for as much: aligned_alloc takes longer than most
// kernels of that size, since glibc 2.36 neither caches aligned blocks nor finds them without a search.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace gabbro::cpu {

class SmallBlocks {
 public:
  static constexpr size_t kUnit = 64;       // sizes are multiples of it
  static constexpr size_t kLargest = 4096;  // bytes of a block
  static constexpr size_t kMost = 32;       // blocks of one size: 4.1 MiB if there are as many of each

  SmallBlocks() = default;
  ~SmallBlocks() { clear(); }
  SmallBlocks(const SmallBlocks&) = delete;
  SmallBlocks& operator=(const SmallBlocks&) = delete;

  // A block of at least `bytes`, a multiple of kUnit up to kLargest; null if there is none.
  void* take(size_t bytes);
  // Takes memory of aligned_alloc with `bytes` usable bytes, at least kUnit. Frees it if it is too large, or if enough
  // blocks of its size are kept.
  void put(void* pointer, size_t bytes);
  size_t clear();  // frees all, and returns how many bytes that was

 private:
  struct Block {
    Block* next;
  };
  struct Blocks {
    Block* first = nullptr;  // the newest
    uint32_t count = 0;
  };

  std::mutex mutex_;
  std::array<Blocks, kLargest / kUnit> sizes_{};  // of kUnit, 2 * kUnit ... bytes
};

}  // namespace gabbro::cpu
