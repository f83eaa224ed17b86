// GPT-Neo: learned positions, scores without a scale, and windows in every other layer.
#include <fmt/format.h>

#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::gpt_neo {
namespace {

constexpr std::string_view kArchitectures[] = {"gptneo", "gpt_neo"};

constexpr WeightName kNames[] = {
    {"token_embd", "transformer.wte"},
    {"position_embd", "transformer.wpe"},
    {"output_norm", "transformer.ln_f"},
    {"output", "lm_head"},
    {"blk.{}.attn_norm", "transformer.h.{}.ln_1"},
    {"blk.{}.attn_q", "transformer.h.{}.attn.attention.q_proj"},
    {"blk.{}.attn_k", "transformer.h.{}.attn.attention.k_proj"},
    {"blk.{}.attn_v", "transformer.h.{}.attn.attention.v_proj"},
    {"blk.{}.attn_output", "transformer.h.{}.attn.attention.out_proj"},
    {"blk.{}.ffn_norm", "transformer.h.{}.ln_2"},
    {"blk.{}.ffn_up", "transformer.h.{}.mlp.c_fc"},
    {"blk.{}.ffn_down", "transformer.h.{}.mlp.c_proj"},
};

// attention_layers, or what attention_types makes of it: [[["global", "local"], 12]] is 12 times both.
std::vector<std::string> read_types(const ConfigReader& fields, FieldName list, size_t layers) {
  constexpr FieldName kShort{nullptr, "attention_types"};
  if (fields.has(list)) return fields.texts(list);
  std::vector<std::string> types;
  if (!fields.has(kShort)) {
    for (size_t i = 0; i < layers; ++i) types.emplace_back(i % 2 == 0 ? "global" : "local");
    return types;
  }
  for (const MetadataValue& item : fields.values(kShort)) {
    const std::vector<MetadataValue> pair = item.elements();
    const auto names = pair.size() == 2 ? pair[0].as_vector<std::string_view>() : std::nullopt;
    const auto times = pair.size() == 2 ? pair[1].as<uint32_t>() : std::nullopt;
    if (!names || !times || *times > layers) fields.refuse(kShort, "is not a list of names and counts");
    for (uint32_t i = 0; i < *times; ++i) types.insert(types.end(), names->begin(), names->end());
  }
  return types;
}

// Layers are "global" or "local", which attend to the last `window_size` tokens.
void read_attention_layers(const ConfigReader& fields, std::vector<LayerKind>& layers) {
  constexpr FieldName kTypes{nullptr, "attention_layers"}, kWindow{nullptr, "window_size"};
  const std::vector<std::string> types = read_types(fields, kTypes, layers.size());
  if (types.size() != layers.size())
    fields.refuse(kTypes, fmt::format("has {} layers, the model has {}", types.size(), layers.size()));
  const int64_t window = fields.size_or(kWindow, 256, 1, int64_t{1} << 32);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (types[i] != "global" && types[i] != "local")
      fields.refuse(kTypes, fmt::format("has '{}', expected global or local", types[i]));
    layers[i].window = types[i] == "local" ? window : 0;
  }
}

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kNames);
  if (fields.is_hugging_face()) read_attention_layers(fields, config.layers);
  config.norm = NormKind::kLayer;
  config.learned_positions = true;
  config.attention_scale = 1;
  config.gated = false;
  config.activation = read_activation(fields, Activation::kGeluTanh);
  for (LayerKind& kind : config.layers) kind.rotated = false;
  return config;
}

}  // namespace

extern const Family kGptNeo;
const Family kGptNeo = decoder_family<read_config>(kArchitectures, kNames);

}  // namespace gabbro::llm::gpt_neo
