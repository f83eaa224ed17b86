// Counts the bytes of the matrices that a family asks for, as a source without tensors.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/models/weights/weight_source.h"

namespace gabbro::llm {

class ShardSizes : public WeightSource {
 public:
  struct Matrices {
    std::function<bool(const std::string& name)> has;
    std::function<DType(const std::string& name)> format;
    // Bytes of a matrix on the device.
    std::function<size_t(DType dtype, int64_t rows, int64_t columns)> bytes;
  };
  explicit ShardSizes(Matrices matrices) : WeightSource(nullptr), matrices_(std::move(matrices)) {}

  size_t bytes() const { return bytes_; }

  bool has(const std::string& name) const override { return matrices_.has(name); }
  Tensor matrix(const std::string& name, const MatrixSize& size, const TransformersLayout& theirs = {}) override;
  std::shared_ptr<nn::Linear> projection(const std::string& name, const MatrixSize& size,
                                         const TransformersLayout& theirs = {}) override;
  std::vector<float> values(const std::string& name, const std::vector<int64_t>& shape,
                            const TransformersLayout& theirs = {}) override;  // ones
  ExpertWeights experts(const std::string& name, const ExpertsSize& size) override;
  Tensor heads(const std::string& name, const HeadMatrices& size, bool together) override;

 private:
  void add(const std::string& name, int64_t rows, int64_t columns);

  Matrices matrices_;
  size_t bytes_ = 0;
};

}  // namespace gabbro::llm
