// Memory of tensors that live together, such as a model's weights: one allocation for all of them, or several if one
// would take too much of the device. GPUs give memory out in steps of 2 MiB: 300 matrices would waste half a
// step each, and the host looks up fewer pages.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "src/base/round_up.h"

namespace gabbro {

class Device;

class MemoryBlock {
 public:
  // Room for `bytes`, a sum of rounded() sizes. Throws OutOfMemory.
  MemoryBlock(std::shared_ptr<Device> device, size_t bytes);

  static constexpr size_t kAlignment = 256;
  static constexpr size_t rounded(size_t bytes) { return round_up(bytes, kAlignment); }

  // A piece; without enough room, a separate allocation. An allocation is freed with the last of its pieces.
  std::shared_ptr<void> take(size_t bytes);

 private:
  struct Allocation {
    std::shared_ptr<void> memory;
    size_t bytes;
    size_t used = 0;
  };

  std::shared_ptr<Device> device_;
  std::vector<Allocation> allocations_;
};

}  // namespace gabbro
