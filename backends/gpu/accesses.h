// The memory that launches read and write: for the simulator's check of the order of accesses, and for kernels that
// read before the launches ahead of them have ended.
#pragma once

#include <vector>

#include "backends/gpu/api.h"

namespace gabbro::gpu {

// The operands and the scratch.
std::vector<api::Access> accesses_of(const abi::Launch& launch, size_t scratch_bytes);

// The writes of the launches of a list up to some point.
class WrittenMemory {
 public:
  void add(const abi::Launch& launch, size_t scratch_bytes);
  // Whether any of them writes to a part of the view.
  bool touches(const abi::TensorView& view) const;

 private:
  std::vector<api::Access> writes_;
};

}  // namespace gabbro::gpu
