// The tensors of a checkpoint that its model has.
#pragma once

#include <span>
#include <string>

#include "src/models/config/config_reader.h"
#include "src/models/weights/weight_names.h"

namespace gabbro::llm {

// The tensors of the files. A config.json may decide about biases: one that it rules out is ignored, and one that it
// asks for is missing if the files do not have it.
class CountedTensors {
 public:
  CountedTensors(std::span<const WeightName> names, const Checkpoint& checkpoint)
      : names_(names), checkpoint_(checkpoint), config_(checkpoint) {}

  bool has(const std::string& name) const;  // of GGUF

 private:
  std::span<const WeightName> names_;
  const Checkpoint& checkpoint_;
  ConfigReader config_;
};

}  // namespace gabbro::llm
