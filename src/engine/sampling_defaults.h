// How a model's files say that its tokens should be chosen: the GGUF fields general.sampling.*, and of a folder
// generation_config.json (src/models/config/generation_fields.h).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gabbro/engine/sampler.h"
#include "src/formats/checkpoint.h"

namespace gabbro {

// A setting that a file may hold: its field, the option of the command line that is the same, and where it is kept.
struct SamplingField {
  const char* key;
  const char* option;
  float SamplerOptions::*number;  // null where it is an integer
  int SamplerOptions::*integer;   // null where it is a number
  double least, most;             // what a Sampler takes
};
std::span<const SamplingField> sampling_fields();

struct SamplingDefault {
  const SamplingField* field;
  double value;
  void apply(SamplerOptions& options) const;
};

struct SamplingDefaults {
  std::vector<SamplingDefault> values;  // in the order of sampling_fields()
  std::vector<std::string> warnings;    // a line for each value that was ignored: not a number, or outside its range
};

SamplingDefaults read_sampling_defaults(const Checkpoint& checkpoint);

}  // namespace gabbro
