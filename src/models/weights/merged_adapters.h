// Adapters that a conversion merges into the weights.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/models/weights/adapter.h"

namespace gabbro::llm {

struct MergedAdapter {
  std::shared_ptr<const Adapter> adapter;
  float scale = 1;
};

// Rows of products that adapters add to one matrix.
class MergedRows {
 public:
  struct Term {
    const Adapter* adapter;
    const AdapterPair* pair;
    float scale;
  };

  MergedRows() = default;
  // `size` is the whole matrix. Throws bad_input where an adapter's matrix has other sizes.
  MergedRows(std::span<const MergedAdapter> adapters, std::span<const WeightName> names, const std::string& name,
             const MatrixSize& size, const TransformersLayout& theirs);

  std::span<const Term> terms() const { return terms_; }
  // values[k] += scale · factor · Σ_r b[row][r] · a[r][k], for row `row` of GGUF's layout.
  void add_to(int64_t row, std::span<float> values) const;

 private:
  std::vector<Term> terms_;
  TransformersLayout theirs_;
};

// A text that differs where the adapters' values, names or scales do.
std::string describe_values(std::span<const MergedAdapter> adapters);

}  // namespace gabbro::llm
