// Weights of a checkpoint for modules of src/nn, by the names of their state dicts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gabbro/nn/factory.h"
#include "src/models/weights/weight_source.h"

namespace gabbro::llm {

// nn::Factory::weights of a source with the names of modules: a checkpoint without a table of names,
// or with one that has GGUF's column so. The source has to live as long as modules are made.
class SourcedModuleWeights : public nn::ModuleWeights {
 public:
  explicit SourcedModuleWeights(WeightSource& source) : source_(source) {}

  bool has(const std::string& name) const override { return source_.has(name); }
  Tensor tensor(const std::string& name, const Shape& shape, DType dtype) override {
    std::vector<int64_t> lengths;
    for (int i = 0; i < shape.rank(); ++i) lengths.push_back(shape[i]);
    return source_.tensor(name, lengths, {}, dtype);
  }
  std::shared_ptr<nn::Linear> linear(const std::string& prefix, int64_t rows, int64_t columns) override {
    return source_.linear(prefix, {.rows = rows, .columns = columns});
  }

 private:
  WeightSource& source_;
};

}  // namespace gabbro::llm
