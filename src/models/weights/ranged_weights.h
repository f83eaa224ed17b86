// The weights of a range of layers. Tensors of other layers are undefined, and are not read.
#pragma once

#include "src/models/weights/layer_range.h"
#include "src/models/weights/weight_decorator.h"

namespace gabbro::llm {

class RangedWeights : public WeightDecorator {
 public:
  RangedWeights(WeightSource& inner, const LayerRange& range) : WeightDecorator(inner), range_(range) {}

  Tensor matrix(const std::string& name, const MatrixSize& size, const TransformersLayout& theirs = {}) override;
  std::shared_ptr<nn::Linear> projection(const std::string& name, const MatrixSize& size,
                                         const TransformersLayout& theirs = {}) override;
  // Ones for other layers.
  std::vector<float> values(const std::string& name, const std::vector<int64_t>& shape,
                            const TransformersLayout& theirs = {}) override;
  ExpertWeights experts(const std::string& name, const ExpertsSize& size) override;
  Tensor heads(const std::string& name, const HeadMatrices& size, bool together) override;
  Tensor tensor(const std::string& name, const std::vector<int64_t>& shape, const TransformersLayout& theirs = {},
                DType dtype = DType::f32) override;

 private:
  bool holds(const std::string& name) const;         // a matrix
  bool holds_values(const std::string& name) const;  // small tensors outside of layers are in every range

  LayerRange range_;
};

}  // namespace gabbro::llm
