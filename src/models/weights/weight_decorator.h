// A source whose weights come from another one; classes derived from it change some of them.
#pragma once

#include "src/models/weights/weight_source.h"

namespace gabbro::llm {

class WeightDecorator : public WeightSource {
 public:
  explicit WeightDecorator(WeightSource& inner) : WeightDecorator(inner, inner.cuts()) {}

  bool has(const std::string& name) const override { return inner_.has(name); }
  Tensor matrix(const std::string& name, const MatrixSize& size, const TransformersLayout& theirs) override {
    return inner_.matrix(name, size, theirs);
  }
  std::shared_ptr<nn::Linear> projection(const std::string& name, const MatrixSize& size,
                                         const TransformersLayout& theirs) override {
    return inner_.projection(name, size, theirs);
  }
  std::vector<float> values(const std::string& name, const std::vector<int64_t>& shape,
                            const TransformersLayout& theirs) override {
    return inner_.values(name, shape, theirs);
  }
  ExpertWeights experts(const std::string& name, const ExpertsSize& size) override {
    return inner_.experts(name, size);
  }
  Tensor heads(const std::string& name, const HeadMatrices& size, bool together) override {
    return inner_.heads(name, size, together);
  }

 protected:
  WeightDecorator(WeightSource& inner, const TensorCuts* cuts) : WeightSource(inner.memory(), cuts), inner_(inner) {}

  WeightSource& inner() { return inner_; }

 private:
  WeightSource& inner_;
};

}  // namespace gabbro::llm
