// Sampling options in a model's files: the GGUF fields general.sampling.* of llama.cpp, or a folder's
// generation_config.json (src/models/config/generation_fields.h).
#pragma once

#include <string>
#include <vector>

#include "gabbro/sampling_options.h"
#include "src/formats/checkpoint.h"

namespace gabbro {

struct SamplingDefault {
  const SamplingOption* option;
  double value;
  void apply(SamplerOptions& options) const { option->set(options, value); }
};

struct SamplingDefaults {
  std::vector<SamplingDefault> values;  // in the order of kSamplingOptions
  std::vector<std::string> warnings;    // a line for each value that was ignored: not a number, or outside its range
};

SamplingDefaults read_sampling_defaults(const Checkpoint& checkpoint);

}  // namespace gabbro
