#include "src/models/weights/adapted_weights.h"

#include <algorithm>

#include "src/backend/device.h"
#include "src/models/weights/weight_memory.h"

namespace gabbro::llm {

nn::LowRank AdaptedWeights::low_rank(const ScaledAdapter& adapter, const AdapterPair& pair, const MatrixSize& size,
                                     const TransformersLayout& theirs) const {
  const int64_t rows = size.wanted_rows(), columns = size.wanted_columns(), rank = pair.rank;
  const bool peft = !adapter.adapter->in_gguf();
  const auto a = std::make_shared<std::vector<float>>(static_cast<size_t>(rank * columns));
  for (int64_t r = 0; r < rank; ++r) {
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t column = size.column_range.first + j;
      const int64_t stored = peft && theirs.column ? theirs.column(column) : column;
      (*a)[static_cast<size_t>(r * columns + j)] = pair.a[static_cast<size_t>(r * size.columns + stored)] * pair.factor;
    }
  }
  const auto b = std::make_shared<std::vector<float>>(static_cast<size_t>(rows * rank));
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t row = adapter.adapter->stored_row(theirs, size.row_range.first + i);
    const float factor = peft && theirs.factor ? theirs.factor(size.row_range.first + i) : 1;
    std::transform(pair.b.begin() + row * rank, pair.b.begin() + (row + 1) * rank, b->begin() + i * rank,
                   [&](float value) { return value * factor; });
  }
  Device& device = *memory()->device();
  return {.a = device.upload_matrix(DType::f32, rank, columns, {a, a->data()}),
          .b = device.upload_matrix(DType::f32, rows, rank, {b, b->data()}),
          .scale = adapter.scale};
}

std::shared_ptr<nn::Linear> AdaptedWeights::projection(const std::string& name, const MatrixSize& size,
                                                       const TransformersLayout& theirs) {
  std::shared_ptr<nn::Linear> layer = WeightDecorator::projection(name, size, theirs);
  for (const ScaledAdapter& one : adapters_) {
    const AdapterPair* const pair = one.adapter->find(names_, name, size, theirs);
    if (pair == nullptr) continue;
    used_.push_back(pair);
    layer->adapters.push_back(low_rank(one, *pair, size, theirs));
  }
  return layer;
}

void AdaptedWeights::require_used() const {
  for (const ScaledAdapter& one : adapters_) one.adapter->require_used(used_);
}

}  // namespace gabbro::llm
