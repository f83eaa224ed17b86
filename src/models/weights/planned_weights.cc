#include "src/models/weights/planned_weights.h"

#include <stdexcept>

#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/models/weights/load_formats.h"

namespace gabbro::llm {

PlannedWeights::PlannedWeights(const Checkpoint& checkpoint, std::span<const WeightName> names,
                               std::shared_ptr<Device> device, PlannedMemory& memory, bool separate)
    : WeightSource(&memory_),
      stored_(checkpoint, names, false, {}),
      memory_(device, 0, true),
      planned_(memory),
      block_bytes_(separate ? 0 : bytes_of_matrices(checkpoint, names, {}, *device, nullptr)),
      block_(memory.allocate(block_bytes_)) {}

void PlannedWeights::require(const std::string& name) const {
  if (!has(name)) throw bad_input("{}: tensor {} is missing", stored_.checkpoint().path(), quote(name));
}

std::shared_ptr<void> PlannedWeights::take(size_t bytes) {
  const size_t size = MemoryBlock::rounded(bytes);
  if (size > block_bytes_ - block_used_) return planned_.allocate(bytes);
  std::shared_ptr<void> piece(block_, static_cast<std::byte*>(block_.get()) + block_used_);
  block_used_ += size;
  return piece;
}

Tensor PlannedWeights::planned(DType dtype, const std::vector<int64_t>& shape, bool is_matrix) {
  Device& device = *memory_.device();
  const Shape lengths(shape);
  const size_t plain = dtype_bytes(dtype, static_cast<size_t>(lengths.elements()));
  if (!is_matrix) return device.tensor_in(planned_.allocate(plain), dtype, lengths);
  const size_t copied = device.matrix_bytes(dtype, shape[0], shape[1]);  // 0: it stays in the mapped file
  Tensor tensor = device.tensor_in(copied > 0 ? take(copied) : planned_.allocate(plain), dtype, lengths);
  const Device::State& state = device.state();
  tensor.state().spec.packed = state.backend->packed_bytes(state.device, dtype, shape[0], shape[1]) > 0;
  return tensor;
}

Tensor PlannedWeights::matrix(const std::string& name, const MatrixSize& size, const TransformersLayout& theirs) {
  return planned(stored_.matrix(name, size, theirs).dtype(), {size.wanted_rows(), size.wanted_columns()}, true);
}

std::shared_ptr<nn::Linear> PlannedWeights::projection(const std::string& name, const MatrixSize& size,
                                                       const TransformersLayout& theirs) {
  return std::make_shared<nn::Linear>(matrix(name, size, theirs));
}

std::vector<float> PlannedWeights::values(const std::string& name, const std::vector<int64_t>& shape,
                                          const TransformersLayout& /*theirs*/) {
  require(name);
  return std::vector<float>(static_cast<size_t>(Shape(shape).elements()));
}

Tensor PlannedWeights::tensor(const std::string& name, const std::vector<int64_t>& shape,
                              const TransformersLayout& /*theirs*/, DType dtype) {
  require(name);
  return planned(dtype, shape, dtype == DType::f32 && shape.size() == 2);
}

ExpertWeights PlannedWeights::experts(const std::string& name, const ExpertsSize& /*size*/) {
  throw std::logic_error("experts are not planned: " + name);
}

Tensor PlannedWeights::heads(const std::string& name, const HeadMatrices& /*size*/, bool /*together*/) {
  throw std::logic_error("matrices of heads are not planned: " + name);
}

}  // namespace gabbro::llm
