#include "src/models/weights/planned_weights.h"

#include <stdexcept>

#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/base/quote.h"

namespace gabbro::llm {

PlannedWeights::PlannedWeights(const Checkpoint& checkpoint, std::span<const WeightName> names,
                               std::shared_ptr<Device> device)
    : WeightSource(&memory_),
      stored_(checkpoint, names, false, {}),
      memory_(std::move(device), 0, true),
      placeholder_(std::make_shared<std::vector<std::byte>>(4096)) {}

void PlannedWeights::require(const std::string& name) const {
  if (!has(name)) throw bad_input("{}: tensor {} is missing", stored_.checkpoint().path(), quote(name));
}

Tensor PlannedWeights::planned(DType dtype, const std::vector<int64_t>& shape, bool is_matrix) {
  const std::shared_ptr<Device>& device = memory_.device();
  Tensor tensor = device->tensor_in(placeholder_, dtype, Shape(shape));
  size_t bytes = dtype_bytes(dtype, static_cast<size_t>(tensor.shape().elements()));
  if (is_matrix) {
    const Device::State& state = device->state();
    const size_t packed = state.backend->packed_bytes(state.device, dtype, shape[0], shape[1]);
    tensor.state().spec.packed = packed > 0;
    if (packed > 0) bytes = packed;
  }
  bytes_ += MemoryBlock::rounded(bytes);
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
  std::vector<float> zeros(static_cast<size_t>(Shape(shape).elements()));
  bytes_ += MemoryBlock::rounded(zeros.size() * sizeof(float));
  return zeros;
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
