// One device's part of a model's tensors, see TensorCuts.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/models/weights/tensor_cuts.h"
#include "src/models/weights/weight_decorator.h"

namespace gabbro::llm {

// All functions throw bad_input for a tensor that has no cut, and name it.
class ShardedWeights : public WeightDecorator {
 public:
  // `block_of` gives the elements of a block of a tensor, by its name in GGUF.
  ShardedWeights(WeightSource& inner, const TensorShard& shard, const HeadSizes& sizes,
                 std::function<int64_t(const std::string& name)> block_of)
      : WeightDecorator(inner, &cuts_), cuts_(shard, sizes, std::move(block_of)) {}

  Tensor matrix(const std::string& name, const MatrixSize& size, const TransformersLayout& theirs = {}) override;
  std::shared_ptr<nn::Linear> projection(const std::string& name, const MatrixSize& size,
                                         const TransformersLayout& theirs = {}) override;
  ExpertWeights experts(const std::string& name, const ExpertsSize& size) override;
  Tensor tensor(const std::string& name, const std::vector<int64_t>& shape, const TransformersLayout& theirs = {},
                DType dtype = DType::f32) override;

 private:
  TensorCuts cuts_;
};

}  // namespace gabbro::llm
