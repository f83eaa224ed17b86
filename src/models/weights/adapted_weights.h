// Adds the products of adapters to the layers of their names.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/models/weights/adapter.h"
#include "src/models/weights/weight_decorator.h"

namespace gabbro::llm {

class AdaptedWeights : public WeightDecorator {
 public:
  // `names` are the family's, by which modules of an adapter are found. The model keeps the scales.
  AdaptedWeights(WeightSource& inner, std::span<const WeightName> names, std::span<const ScaledAdapter> adapters)
      : WeightDecorator(inner), names_(names), adapters_(adapters) {}

  std::shared_ptr<nn::Linear> projection(const std::string& name, const MatrixSize& size,
                                         const TransformersLayout& theirs = {}) override;
  // Throws bad_input where an adapter has a matrix that no layer took.
  void require_used() const;

 private:
  nn::LowRank low_rank(const ScaledAdapter& adapter, const AdapterPair& pair, const MatrixSize& size,
                       const TransformersLayout& theirs) const;

  std::span<const WeightName> names_;
  std::span<const ScaledAdapter> adapters_;
  std::vector<const AdapterPair*> used_;
};

}  // namespace gabbro::llm
