#include "src/models/weights/input_squares.h"

#include "gabbro/graph/eval.h"

namespace gabbro::llm {

void InputSquares::add(const std::string& name, const Tensor& x) {
  const int64_t columns = x.shape()[x.shape().rank() - 1];
  const int64_t tokens = x.shape().elements() / columns;
  const Tensor rows = cast(reshape(x, Shape{tokens, columns}), DType::f32);
  pending_.push_back({.name = name, .sums = sum(rows * rows, 0, true), .counts = {}, .tokens = tokens});
}

void InputSquares::add_experts(const std::string& name, const Tensor& x, const Tensor& ids, int64_t experts) {
  const int64_t columns = x.shape()[x.shape().rank() - 1];
  const int64_t tokens = ids.shape()[0], used = ids.shape()[1];
  const Tensor numbers = iota(x.device(), experts, DType::i32);                // [E]
  const Tensor chosen = equal(reshape(ids, Shape{tokens, used, 1}), numbers);  // [T, U, E]
  const bool same_input = x.shape().rank() == 2;
  const int64_t rows = same_input ? tokens : tokens * used;
  const Tensor mask = cast(same_input ? any(chosen, 1) : reshape(chosen, Shape{rows, experts}), DType::f32);  // [R, E]
  const Tensor inputs = cast(reshape(x, Shape{rows, columns}), DType::f32);                                   // [R, K]
  pending_.push_back({.name = name,
                      .sums = matmul(matrix_transpose(mask), inputs * inputs),  // [E, K]
                      .counts = sum(mask, 0)});                                 // [E]
}

std::vector<Tensor> InputSquares::pending() const {
  std::vector<Tensor> tensors;
  for (const Pending& one : pending_) {
    tensors.push_back(one.sums);
    if (one.counts.defined()) tensors.push_back(one.counts);
  }
  return tensors;
}

void InputSquares::accumulate() {
  for (const Pending& one : pending_) {
    Sums& total = sums_[one.name];
    const std::vector<float> sums = to_host<float>(one.sums);
    const std::vector<float> counts =
        one.counts.defined() ? to_host<float>(one.counts) : std::vector<float>{static_cast<float>(one.tokens)};
    total.sums.resize(sums.size());
    total.counts.resize(counts.size());
    for (size_t i = 0; i < sums.size(); ++i) total.sums[i] += sums[i];
    for (size_t i = 0; i < counts.size(); ++i) total.counts[i] += counts[i];
  }
  pending_.clear();
}

ImportanceMatrix InputSquares::result() const {
  ImportanceMatrix matrix;
  for (const auto& [name, total] : sums_) {
    matrix.entries[name] = {.columns = std::ssize(total.sums) / std::ssize(total.counts),
                            .sums = {total.sums.begin(), total.sums.end()},
                            .counts = {total.counts.begin(), total.counts.end()}};
  }
  return matrix;
}

}  // namespace gabbro::llm
