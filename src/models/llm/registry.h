// The visible list of model families.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "src/models/llm/weights.h"

namespace gabbro::llm {

struct Family {
  std::span<const std::string_view> architectures;  // general.architecture of GGUF, model_type of config.json
  std::span<const WeightName> names;
  ModelShape (*read_shape)(const Checkpoint& checkpoint);
  // Asks `weights` for all tensors of the model. Sequences have `context` tokens at most.
  std::unique_ptr<LanguageModel> (*build)(const Checkpoint& checkpoint, WeightSource& weights, int64_t context);
};

std::span<const Family* const> families();
const Family* find_family(std::string_view architecture);  // null if there is none
const Family& family_of(const Checkpoint& checkpoint);     // throws bad_input that lists those that there are
std::string known_architectures();                         // "llama, mistral, granite"

}  // namespace gabbro::llm
