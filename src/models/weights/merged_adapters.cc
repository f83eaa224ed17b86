#include "src/models/weights/merged_adapters.h"

#include <fmt/format.h>

namespace gabbro::llm {

MergedRows::MergedRows(std::span<const MergedAdapter> adapters, std::span<const WeightName> names,
                       const std::string& name, const MatrixSize& size, const TransformersLayout& theirs)
    : theirs_(theirs) {
  for (const MergedAdapter& one : adapters) {
    if (const AdapterPair* const pair = one.adapter->find(names, name, size, theirs))
      terms_.push_back({one.adapter.get(), pair, one.scale});
  }
}

void MergedRows::add_to(int64_t row, std::span<float> values) const {
  for (const Term& term : terms_) {
    const AdapterPair& pair = *term.pair;
    const float* const b = pair.b.data() + term.adapter->stored_row(theirs_, row) * pair.rank;
    for (int64_t r = 0; r < pair.rank; ++r) {
      const float factor = term.scale * pair.factor * b[r];
      const float* const a = pair.a.data() + r * pair.columns;
      for (size_t k = 0; k < values.size(); ++k) values[k] += factor * a[k];
    }
  }
}

std::string describe_values(std::span<const MergedAdapter> adapters) {
  std::string text;
  for (const MergedAdapter& one : adapters) text += fmt::format(" lora {:x} {}", one.adapter->digest(), one.scale);
  return text;
}

}  // namespace gabbro::llm
