// Arcee AFM: a Llama whose feed-forward blocks have squared ReLU and no gate.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::arcee {
namespace {

constexpr std::string_view kArchitectures[] = {"arcee"};

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kDecoderNames);
  config.paired_heads = true;
  config.rope.interleaved = true;
  config.gated = false;
  config.activation = read_activation(fields, Activation::kReluSquared);
  return config;
}

}  // namespace

extern const Family kArcee;
const Family kArcee = decoder_family<read_config>(kArchitectures, kDecoderNames);

}  // namespace gabbro::llm::arcee
