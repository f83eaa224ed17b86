#include "src/models/weights/weight_source.h"

#include "src/models/weights/tensor_cuts.h"
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

const TensorShard* WeightSource::shard() const { return cuts_ != nullptr ? &cuts_->shard() : nullptr; }

std::shared_ptr<nn::Linear> WeightSource::linear(const std::string& prefix, const MatrixSize& size,
                                                 const TransformersLayout& theirs) {
  std::shared_ptr<nn::Linear> layer = projection(prefix + ".weight", size, theirs);
  if (!has(prefix + ".bias")) return layer;
  const MatrixPart part = cuts_ != nullptr ? cuts_->part_of(prefix + ".weight", size) : MatrixPart{.size = size};
  if (part.sums && cuts_->shard().rank > 0) return layer;
  TransformersLayout of_bias = theirs;
  of_bias.transposed = false;
  of_bias.factor = nullptr;
  const std::vector<float> bias = values(prefix + ".bias", {size.rows}, of_bias);
  const auto first = static_cast<size_t>(part.size.row_range.first);
  const auto count = static_cast<size_t>(part.size.wanted_rows());
  if (layer->weight.defined()) layer->bias = upload(std::span(bias).subspan(first, count));
  return layer;
}

}  // namespace gabbro::llm
