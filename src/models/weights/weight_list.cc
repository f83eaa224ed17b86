// The list of the weights that a family asks for.
#include <algorithm>

#include "src/models/weights/weights.h"

namespace gabbro::llm {

void WeightList::add(RequestedTensor tensor) {
  const bool known = std::ranges::any_of(tensors_, [&](const RequestedTensor& t) { return t.name == tensor.name; });
  if (!known) tensors_.push_back(std::move(tensor));
}

Tensor WeightList::matrix(const std::string& name, MatrixSize size, const TransformersLayout& theirs) {
  add({.name = name, .shape = {size.rows, size.columns}, .theirs = theirs});
  return {};
}

Tensor WeightList::matrix_f32(const std::string& name, MatrixSize size, const TransformersLayout& theirs) {
  add({.name = name, .shape = {size.rows, size.columns}, .theirs = theirs, .in_f32 = true});
  return {};
}

Tensor WeightList::head_matrices(const std::string& name, const HeadMatrices& size, bool together) {
  if (together) {
    add({.name = name, .shape = size.stored_shape()});
    std::ranges::find(tensors_, name, &RequestedTensor::name)->taken_out.push_back(size);
  } else {
    add({.name = name, .shape = size.shape(), .heads = size});
  }
  return {};
}

Tensor WeightList::experts(const std::string& name, const ExpertsSize& size) {
  add({.name = name, .shape = {size.experts, size.rows, size.columns}, .experts = size});
  return {};
}

std::vector<float> WeightList::host_vector(const std::string& name, int64_t length, const TransformersLayout& theirs) {
  add({.name = name, .shape = {length}, .theirs = theirs});
  return std::vector<float>(static_cast<size_t>(length), 1.0f);
}

Tensor WeightList::upload(std::span<const float>) { return {}; }

}  // namespace gabbro::llm
