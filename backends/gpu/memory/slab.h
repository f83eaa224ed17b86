// A block of reserved memory, from which pieces of any size are handed out; adjacent free pieces are merged. It knows
// addresses and never touches the memory.
#pragma once

#include <cstddef>
#include <map>

#include "src/base/round_up.h"

namespace gabbro::gpu {

class Slab {
 public:
  Slab(void* base, size_t bytes);

  // Pieces begin at multiples of this, as allocations of the runtimes do.
  static constexpr size_t kAlignment = 256;
  static size_t rounded(size_t bytes) { return round_up(bytes, kAlignment); }

  // `bytes` is rounded and more than 0, as in the next. Null where no gap is large enough; of several the smallest is
  // taken.
  void* take(size_t bytes);
  void release(void* piece, size_t bytes);

  void* base() const { return base_; }
  size_t bytes() const { return bytes_; }
  bool unused() const { return free_ == bytes_; }

 private:
  std::byte* base_;
  size_t bytes_;
  size_t free_;
  std::map<size_t, size_t> gaps_;  // length by offset; no two touch
};

}  // namespace gabbro::gpu
