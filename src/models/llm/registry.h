// The visible list of model families.
#pragma once

#include <span>
#include <string_view>

#include "src/models/llm/weights.h"

namespace gabbro::llm {

struct Family {
  std::string_view architecture;  // general.architecture of GGUF, model_type of config.json
  std::span<const WeightName> names;
  ModelShape (*read_shape)(const Checkpoint& checkpoint);
  // Asks `weights` for all tensors of the model. Sequences have `context` tokens at most.
  std::unique_ptr<LanguageModel> (*build)(const Checkpoint& checkpoint, WeightSource& weights, int64_t context);
};

std::span<const Family> families();
const Family* find_family(std::string_view architecture);  // null if there is none
const Family& family_of(const Checkpoint& checkpoint);     // throws bad_input that lists them

// llama.cc
extern const std::span<const WeightName> kLlamaNames;
ModelShape read_llama_shape(const Checkpoint& checkpoint);
std::unique_ptr<LanguageModel> build_llama(const Checkpoint& checkpoint, WeightSource& weights, int64_t context);

}  // namespace gabbro::llm
