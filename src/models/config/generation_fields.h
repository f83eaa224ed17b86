// How a model's folder says that tokens should be chosen: generation_config.json, and the fields general.sampling.* of
// GGUF that say the same.
#pragma once

#include <string>
#include <vector>

#include "src/formats/metadata.h"

namespace gabbro::llm {

struct GenerationField {
  const char* name;  // in generation_config.json
  const char* gguf;
  bool whole = false;  // an integer
};

struct GenerationDefaults {
  std::vector<std::pair<const GenerationField*, double>> values;  // each field of GGUF at most once
  std::vector<std::string> warnings;                              // a line for each value that is no such number
};

// Those of a folder's metadata. `do_sample: false` is a temperature of 0.
GenerationDefaults read_generation_defaults(const Metadata& metadata);

}  // namespace gabbro::llm
