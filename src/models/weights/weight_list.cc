#include "src/models/weights/weight_list.h"

#include <algorithm>

namespace gabbro::llm {

void WeightList::add(RequestedTensor tensor) {
  const bool known = std::ranges::any_of(tensors_, [&](const RequestedTensor& t) { return t.name == tensor.name; });
  if (!known) tensors_.push_back(std::move(tensor));
}

Tensor WeightList::matrix(const std::string& name, const MatrixSize& size, const TransformersLayout& theirs) {
  add({.name = name, .shape = {size.rows, size.columns}, .theirs = theirs});
  return {};
}

std::shared_ptr<nn::Linear> WeightList::projection(const std::string& name, const MatrixSize& size,
                                                   const TransformersLayout& theirs) {
  return std::make_shared<nn::Linear>(matrix(name, size, theirs));
}

std::vector<float> WeightList::values(const std::string& name, const std::vector<int64_t>& shape,
                                      const TransformersLayout& theirs) {
  add({.name = name, .shape = shape, .theirs = theirs, .in_f32 = shape.size() > 1});
  int64_t count = 1;
  for (const int64_t length : shape) count *= length;
  return std::vector<float>(static_cast<size_t>(count), 1.0f);
}

ExpertWeights WeightList::experts(const std::string& name, const ExpertsSize& size) {
  add({.name = name, .shape = {size.experts, size.rows, size.columns}, .experts = size});
  return {};
}

Tensor WeightList::heads(const std::string& name, const HeadMatrices& size, bool together) {
  if (together) {
    add({.name = name, .shape = size.stored_shape()});
    std::ranges::find(tensors_, name, &RequestedTensor::name)->taken_out.push_back(size);
  } else {
    add({.name = name, .shape = size.shape(), .heads = size});
  }
  return {};
}

}  // namespace gabbro::llm
