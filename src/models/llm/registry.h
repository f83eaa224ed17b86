// The visible list of model families.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "src/models/llm/model.h"
#include "src/models/weights/adapter.h"
#include "src/models/weights/weight_source.h"

namespace gabbro::llm {

struct GgufFields;  // gguf_fields.h

struct Family {
  // general.architecture of GGUF (the first of them in files that we write), and model_type of config.json.
  std::span<const std::string_view> architectures;
  std::span<const WeightName> names;
  ModelShape (*read_shape)(const Checkpoint& checkpoint);
  // Asks `weights` for all tensors of the model. Sequences have `context` tokens at most.
  std::unique_ptr<LanguageModel> (*build)(const Checkpoint& checkpoint, WeightSource& weights, int64_t context);
  // The configuration as fields of GGUF.
  void (*write_fields)(const Checkpoint& checkpoint, GgufFields& fields);
};

std::span<const Family* const> families();
const Family* find_family(std::string_view architecture);  // null if there is none
// The layers that the files of a folder hold are as many as its config.json says, or more, which are not used: then a
// line that says so, else nothing. Throws bad_input where there are fewer.
std::string unused_layers(const Checkpoint& checkpoint, const ModelShape& shape);
const Family& family_of(const Checkpoint& checkpoint);  // throws bad_input that lists those that there are
std::string known_architectures();                      // "llama, mistral, granite"
// Throws bad_input where a GGUF adapter was made for another architecture than the checkpoint's.
void check_adapter(const Adapter& adapter, const Checkpoint& checkpoint);

}  // namespace gabbro::llm
