// The device that weights are loaded to, and the block of its memory that the matrices of a model share.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "gabbro/ops.h"
#include "src/backend/memory_block.h"

namespace gabbro::llm {

class WeightMemory {
 public:
  // `bytes` of all matrices. Only with `in_place` a matrix that needs no packing may stay in the mapped file.
  WeightMemory(std::shared_ptr<Device> device, size_t bytes, bool in_place);

  const std::shared_ptr<Device>& device() const { return device_; }
  // A matrix in the device's packing.
  Tensor matrix(DType dtype, int64_t rows, int64_t columns, const std::shared_ptr<const void>& bytes);
  // A tensor in a float format; a matrix in f32 is packed as linear() reads it fastest.
  Tensor tensor(std::span<const float> values, const Shape& shape, DType dtype = DType::f32);

 private:
  std::shared_ptr<Device> device_;
  MemoryBlock block_;
  bool in_place_;
};

}  // namespace gabbro::llm
