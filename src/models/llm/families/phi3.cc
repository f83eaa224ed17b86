// Phi 3, 3.5 and 4: queries, keys and values in one matrix, gate and up in another; LongRoPE in models of long
// contexts.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::phi3 {
namespace {

constexpr std::string_view kArchitectures[] = {"phi3"};

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kDecoderNames);
  config.activation = read_activation(fields, Activation::kSilu);
  return config;
}

}  // namespace

extern const Family kPhi3;
const Family kPhi3 = decoder_family<read_config>(kArchitectures, kDecoderNames);

}  // namespace gabbro::llm::phi3
