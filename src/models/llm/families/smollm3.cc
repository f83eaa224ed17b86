// SmolLM 3: a Llama whose every fourth layer has no rotary embeddings.
#include <fmt/format.h>

#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::smollm3 {
namespace {

constexpr std::string_view kArchitectures[] = {"smollm3"};

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kDecoderNames);
  config.paired_heads = true;
  config.rope.interleaved = true;
  config.activation = read_activation(fields, Activation::kSilu);
  constexpr FieldName kRotated{"rope.rotated_layers",
                               "no_rope_layers"};  // 1 where a layer has them, in spite of the name
  constexpr FieldName kInterval{nullptr, "no_rope_layer_interval"};
  config.rotated_layers_given = true;
  const std::vector<int64_t> rotated = fields.sizes(kRotated);
  const bool longer = fields.is_hugging_face() && rotated.size() > config.layers.size();  // the first ones count
  if (!rotated.empty() && !longer && rotated.size() != config.layers.size())
    fields.refuse(kRotated, fmt::format("has {} layers, the model has {}", rotated.size(), config.layers.size()));
  const auto interval = static_cast<size_t>(fields.size_or(kInterval, 4, 1, 4096));
  for (size_t i = 0; i < config.layers.size(); ++i)
    config.layers[i].rotated = rotated.empty() ? (i + 1) % interval != 0 : rotated[i] != 0;
  return config;
}

}  // namespace

extern const Family kSmolLm3;
const Family kSmolLm3 = decoder_family<read_config>(kArchitectures, kDecoderNames);

}  // namespace gabbro::llm::smollm3
