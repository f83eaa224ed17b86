#include "src/models/weights/shard_sizes.h"

namespace gabbro::llm {

void ShardSizes::add(const std::string& name, int64_t rows, int64_t columns) {
  bytes_ += matrices_.bytes(matrices_.format(name), rows, columns);
}

Tensor ShardSizes::matrix(const std::string& name, const MatrixSize& size, const TransformersLayout& /*theirs*/) {
  add(name, size.wanted_rows(), size.wanted_columns());
  return {};
}

std::shared_ptr<nn::Linear> ShardSizes::projection(const std::string& name, const MatrixSize& size,
                                                   const TransformersLayout& theirs) {
  return std::make_shared<nn::Linear>(matrix(name, size, theirs));
}

std::vector<float> ShardSizes::values(const std::string& /*name*/, const std::vector<int64_t>& shape,
                                      const TransformersLayout& /*theirs*/) {
  int64_t count = 1;
  for (const int64_t length : shape) count *= length;
  return std::vector<float>(static_cast<size_t>(count), 1.0f);
}

ExpertWeights ShardSizes::experts(const std::string& name, const ExpertsSize& size) {
  add(name, size.experts * size.wanted_rows(), size.wanted_columns());
  return {};
}

Tensor ShardSizes::heads(const std::string& name, const HeadMatrices& size, bool /*together*/) {
  add(name, size.wanted_heads() * size.rows, size.columns);
  return {};
}

}  // namespace gabbro::llm
