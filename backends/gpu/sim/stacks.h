// Stacks of a block's threads.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <vector>

#include "kernels/gpu/types.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace gabbro::gpu::sim {

inline constexpr size_t kStackBytes = size_t{64} << 10;  // the lowest page is a guard
inline constexpr size_t kPageBytes = 4096;

// No thread of a block unwinds its stack at its end: the sanitizer would take its frames for live ones.
inline void forget_frames([[maybe_unused]] void* stack) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack, kStackBytes);
#endif
}

// The stacks of one host thread, kept between launches.
class Stacks {
 public:
  Stacks() = default;
  ~Stacks() {
    for (void* stack : stacks_) {
      forget_frames(stack);
      ::munmap(stack, kStackBytes);
    }
  }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  void* stack(u32 index) {
    while (stacks_.size() <= index) {
      void* memory =
          ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
      if (memory == MAP_FAILED) throw std::bad_alloc();
      ::mprotect(memory, kPageBytes, PROT_NONE);
      stacks_.push_back(memory);
    }
    return stacks_[index];
  }

 private:
  std::vector<void*> stacks_;
};

}  // namespace gabbro::gpu::sim
