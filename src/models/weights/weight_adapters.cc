// Adapters and observers of projections, attached while the weights are loaded.
#include <algorithm>

#include "src/models/weights/adapter.h"
#include "src/models/weights/input_squares.h"
#include "src/models/weights/weights.h"

namespace gabbro::llm {

nn::LowRank CheckpointWeights::low_rank(const ScaledAdapter& adapter, const AdapterPair& pair, MatrixSize size,
                                        const TransformersLayout& theirs) {
  const int64_t rows = size.count > 0 ? size.count : size.rows, rank = pair.rank;
  const auto a = std::make_shared<std::vector<float>>(pair.a);
  const bool peft = !adapter.adapter->in_gguf();
  for (int64_t r = 0; r < rank && peft && theirs.column; ++r) {
    for (int64_t j = 0; j < size.columns; ++j)
      (*a)[static_cast<size_t>(r * size.columns + j)] =
          pair.a[static_cast<size_t>(r * size.columns + theirs.column(j))];
  }
  for (float& value : *a) value *= pair.factor;
  const auto b = std::make_shared<std::vector<float>>(static_cast<size_t>(rows * rank));
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t row = adapter.adapter->stored_row(theirs, size.first + i);
    const float factor = peft && theirs.factor ? theirs.factor(size.first + i) : 1;
    std::transform(pair.b.begin() + row * rank, pair.b.begin() + (row + 1) * rank, b->begin() + i * rank,
                   [&](float value) { return value * factor; });
  }
  return {.a = device_->upload_matrix(DType::f32, rank, size.columns, {a, a->data()}),
          .b = device_->upload_matrix(DType::f32, rows, rank, {b, b->data()}),
          .scale = adapter.scale};
}

void CheckpointWeights::attach(const std::string& name, MatrixSize size, const TransformersLayout& theirs,
                               nn::Projection& projection) {
  for (const ScaledAdapter& one : adapters_) {
    const AdapterPair* const pair = one.adapter->find(names_, name, size, theirs);
    if (pair == nullptr) continue;
    adapter_pairs_.push_back(pair);
    projection.adapters.push_back(low_rank(one, *pair, size, theirs));
  }
  // Parts of one matrix have the same input.
  if (observer_ != nullptr && name.starts_with("blk.") && size.first == 0)
    projection.observe = [observer = observer_, name](const Tensor& x) { observer->add(name, x); };
}

void CheckpointWeights::require_adapters_used() const {
  for (const ScaledAdapter& one : adapters_) one.adapter->require_used(adapter_pairs_);
}

}  // namespace gabbro::llm
