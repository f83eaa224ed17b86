// Sampling options in a model's folder: generation_config.json, with the names of transformers and those that
// llama.cpp's converter reads there.
#pragma once

#include <string>
#include <vector>

#include "gabbro/sampling_options.h"
#include "src/formats/metadata.h"

namespace gabbro::llm {

struct GenerationDefault {
  const SamplingOption* option;  // typical_p has no `gguf` name, all others have one
  std::string name;              // in generation_config.json
  double value;
};

struct GenerationDefaults {
  std::vector<GenerationDefault> values;  // each option at most once
  std::vector<std::string> warnings;      // a line for each value of the wrong type, one for all fields not followed
};

// The options in a folder's metadata. `do_sample: false` is a temperature of 0.
GenerationDefaults read_generation_defaults(const Metadata& metadata);

}  // namespace gabbro::llm
