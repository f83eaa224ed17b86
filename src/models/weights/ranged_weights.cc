#include "src/models/weights/ranged_weights.h"

namespace gabbro::llm {

bool RangedWeights::holds_values(const std::string& name) const {
  const int64_t layer = layer_of(name);
  return layer == kNoLayer || range_.has(layer);
}

bool RangedWeights::holds(const std::string& name) const {
  if (layer_of(name) != kNoLayer) return holds_values(name);
  if (name == "output.weight") return range_.has_last;
  const bool is_head = name == "token_embd.weight" && !has("output.weight");
  return range_.has_first || (is_head && range_.has_last);
}

Tensor RangedWeights::matrix(const std::string& name, const MatrixSize& size, const TransformersLayout& theirs) {
  return holds(name) ? WeightDecorator::matrix(name, size, theirs) : Tensor();
}

std::shared_ptr<nn::Linear> RangedWeights::projection(const std::string& name, const MatrixSize& size,
                                                      const TransformersLayout& theirs) {
  return holds(name) ? WeightDecorator::projection(name, size, theirs) : std::make_shared<nn::Linear>(Tensor());
}

std::vector<float> RangedWeights::values(const std::string& name, const std::vector<int64_t>& shape,
                                         const TransformersLayout& theirs) {
  if (holds_values(name)) return WeightDecorator::values(name, shape, theirs);
  int64_t count = 1;
  for (const int64_t length : shape) count *= length;
  return std::vector<float>(static_cast<size_t>(count), 1.0f);
}

ExpertWeights RangedWeights::experts(const std::string& name, const ExpertsSize& size) {
  return holds(name) ? WeightDecorator::experts(name, size) : ExpertWeights{};
}

Tensor RangedWeights::heads(const std::string& name, const HeadMatrices& size, bool together) {
  return holds(name) ? WeightDecorator::heads(name, size, together) : Tensor();
}

Tensor RangedWeights::tensor(const std::string& name, const std::vector<int64_t>& shape,
                             const TransformersLayout& theirs, DType dtype) {
  return holds_values(name) ? WeightSource::tensor(name, shape, theirs, dtype) : Tensor();
}

}  // namespace gabbro::llm
