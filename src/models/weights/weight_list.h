// Lists what a family asks for; its tensors are undefined, so that the model cannot run.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "src/models/weights/requested_tensor.h"
#include "src/models/weights/weight_source.h"

namespace gabbro::llm {

class WeightList : public WeightSource {
 public:
  // `has` says which tensors there are.
  explicit WeightList(std::function<bool(const std::string& name)> has) : WeightSource(nullptr), has_(std::move(has)) {}

  std::span<const RequestedTensor> tensors() const { return tensors_; }

  bool has(const std::string& name) const override { return has_(name); }
  Tensor matrix(const std::string& name, const MatrixSize& size, const TransformersLayout& theirs = {}) override;
  std::shared_ptr<nn::Linear> projection(const std::string& name, const MatrixSize& size,
                                         const TransformersLayout& theirs = {}) override;
  std::vector<float> values(const std::string& name, const std::vector<int64_t>& shape,
                            const TransformersLayout& theirs = {}) override;  // ones
  ExpertWeights experts(const std::string& name, const ExpertsSize& size) override;
  Tensor heads(const std::string& name, const HeadMatrices& size, bool together) override;

 private:
  void add(RequestedTensor tensor);

  std::function<bool(const std::string& name)> has_;
  std::vector<RequestedTensor> tensors_;
};

}  // namespace gabbro::llm
