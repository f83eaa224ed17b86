// Passes the inputs of the matrices of layers to an InputSquares.
#pragma once

#include <memory>
#include <string>

#include "src/models/weights/input_squares.h"
#include "src/models/weights/weight_decorator.h"

namespace gabbro::llm {

class ObservedWeights : public WeightDecorator {
 public:
  // The model keeps `squares`.
  ObservedWeights(WeightSource& inner, std::shared_ptr<InputSquares> squares)
      : WeightDecorator(inner), squares_(std::move(squares)) {}

  // Ranges of rows of one matrix have the same input, which is counted once. Throws std::logic_error for a range of
  // columns, whose inputs are not the matrix's.
  std::shared_ptr<nn::Linear> projection(const std::string& name, const MatrixSize& size,
                                         const TransformersLayout& theirs = {}) override;
  ExpertWeights experts(const std::string& name, const ExpertsSize& size) override;

 private:
  std::shared_ptr<InputSquares> squares_;
};

}  // namespace gabbro::llm
