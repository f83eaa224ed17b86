#include "src/models/weights/weight_source.h"

#include "src/models/weights/weight_memory.h"

namespace gabbro::llm {

Tensor WeightSource::upload(std::span<const float> values) const {
  return memory_ != nullptr ? memory_->tensor(values, Shape{std::ssize(values)}) : Tensor();
}

Tensor WeightSource::tensor(const std::string& name, const std::vector<int64_t>& shape,
                            const TransformersLayout& theirs, DType dtype) {
  const std::vector<float> values = this->values(name, shape, theirs);
  return memory_ != nullptr ? memory_->tensor(values, Shape(shape), dtype) : Tensor();
}

std::shared_ptr<nn::Linear> WeightSource::linear(const std::string& prefix, const MatrixSize& size,
                                                 const TransformersLayout& theirs) {
  std::shared_ptr<nn::Linear> layer = projection(prefix + ".weight", size, theirs);
  if (!has(prefix + ".bias")) return layer;
  TransformersLayout of_bias = theirs;
  of_bias.transposed = false;
  of_bias.factor = nullptr;
  const std::vector<float> bias = values(prefix + ".bias", {size.rows}, of_bias);
  const auto first = static_cast<size_t>(size.row_range.first), count = static_cast<size_t>(size.wanted_rows());
  if (layer->weight.defined()) layer->bias = upload(std::span(bias).subspan(first, count));
  return layer;
}

}  // namespace gabbro::llm
