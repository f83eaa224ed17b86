// Nemotron 3, 4 and Minitron: LayerNorms whose weights are stored smaller by 1, squared ReLU without a gate, partly
// rotated heads.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::nemotron {
namespace {

constexpr std::string_view kArchitectures[] = {"nemotron"};

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kDecoderNames);
  config.norm = NormKind::kLayer;
  config.norm_offset = 1;
  config.gated = false;
  config.activation = read_activation(fields, Activation::kReluSquared);
  return config;
}

}  // namespace

extern const Family kNemotron;
const Family kNemotron = decoder_family<read_config>(kArchitectures, kDecoderNames);

}  // namespace gabbro::llm::nemotron
