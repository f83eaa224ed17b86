#include "src/models/weights/observed_weights.h"

#include <stdexcept>

namespace gabbro::llm {

std::shared_ptr<nn::Linear> ObservedWeights::projection(const std::string& name, const MatrixSize& size,
                                                        const TransformersLayout& theirs) {
  std::shared_ptr<nn::Linear> layer = WeightDecorator::projection(name, size, theirs);
  if (!name.starts_with("blk.") || size.row_range.first != 0) return layer;
  if (!size.column_range.is_all_of(size.columns)) throw std::logic_error(name + ": a range of columns is not observed");
  layer->observe = [squares = squares_, name](const Tensor& x) { squares->add(name, x); };
  return layer;
}

ExpertWeights ObservedWeights::experts(const std::string& name, const ExpertsSize& size) {
  ExpertWeights weights = WeightDecorator::experts(name, size);
  if (!name.starts_with("blk.")) return weights;
  weights.observe = [squares = squares_, name, count = size.experts](const Tensor& x, const Tensor& ids) {
    squares->add_experts(name, x, ids, count);
  };
  return weights;
}

}  // namespace gabbro::llm
