#include "src/engine/page_tables.h"

#include <algorithm>

namespace gabbro {

std::vector<std::vector<int32_t>> page_tables(const EngineCache& cache, std::span<const Sequence* const> sequences,
                                              size_t rows) {
  const auto width = static_cast<size_t>(cache.pages_per_sequence());
  std::vector<std::vector<int32_t>> tables(cache.pools.size(), std::vector<int32_t>(rows * width, 0));
  for (size_t group = 0; group < tables.size(); ++group) {
    for (size_t i = 0; i < sequences.size(); ++i)
      std::ranges::copy(sequences[i]->pages(group), tables[group].begin() + static_cast<std::ptrdiff_t>(i * width));
  }
  return tables;
}

std::vector<Tensor> upload_tables(Device& device, const EngineCache& cache, std::span<const Sequence* const> sequences,
                                  size_t rows) {
  const Shape shape{static_cast<int64_t>(rows), cache.pages_per_sequence()};
  std::vector<Tensor> tables;
  for (const std::vector<int32_t>& values : page_tables(cache, sequences, rows))
    tables.push_back(device.upload(DType::i32, shape, values.data()));
  return tables;
}

}  // namespace gabbro
