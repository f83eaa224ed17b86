// Qwen 3 Next and the text models of Qwen 3.5: layers of linear attention (gated delta rule) mixed with layers of
// softmax attention with a gated output; a mixture of experts with a gated shared expert, or a dense block.
#include <fmt/format.h>

#include <algorithm>

#include "src/models/llm/mixer_family.h"
#include "src/models/llm/mixers/delta_net.h"

namespace gabbro::llm::qwen_next {
namespace {

constexpr std::string_view kNextNames[] = {"qwen3next", "qwen3_next"};
constexpr std::string_view kQwen35Names[] = {"qwen35", "qwen3_5_text", "qwen3_5"};
constexpr std::string_view kQwen35MoeNames[] = {"qwen35moe", "qwen3_5_moe_text", "qwen3_5_moe"};

constexpr WeightName kOwn[] = {
    {"blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"},
    {"blk.{}.attn_qkv", "model.layers.{}.linear_attn.in_proj_qkvz"},
    {"blk.{}.attn_gate", "model.layers.{}.linear_attn.in_proj_qkvz"},
    {"blk.{}.attn_qkv", "model.layers.{}.linear_attn.in_proj_qkv"},
    {"blk.{}.attn_gate", "model.layers.{}.linear_attn.in_proj_z"},
    {"blk.{}.ssm_beta", "model.layers.{}.linear_attn.in_proj_b"},
    {"blk.{}.ssm_alpha", "model.layers.{}.linear_attn.in_proj_a"},
    {"blk.{}.ssm_ba", "model.layers.{}.linear_attn.in_proj_ba"},
    {"blk.{}.ssm_conv1d", "model.layers.{}.linear_attn.conv1d"},
    {"blk.{}.ssm_dt.bias", "model.layers.{}.linear_attn.dt_bias", true},
    {"blk.{}.ssm_a", "model.layers.{}.linear_attn.A_log", true},
    {"blk.{}.ssm_norm", "model.layers.{}.linear_attn.norm"},
    {"blk.{}.ssm_out", "model.layers.{}.linear_attn.out_proj"},
};
constexpr auto kNames = with_names(kOwn, kMixtureDecoderNames);

struct Config {
  DecoderConfig decoder;
  DeltaNetSizes sizes;
  std::vector<bool> attends;  // of each layer; the others are of linear attention
};

constexpr FieldName kInterval{"full_attention_interval", "full_attention_interval"};

std::vector<bool> read_attention_layers(const ConfigReader& fields, int64_t layers) {
  constexpr FieldName kTypes{nullptr, "layer_types"}, kRecurrent{"attention.recurrent_layers", nullptr};
  std::vector<bool> attends;
  if (const std::vector<std::string> types = fields.texts(kTypes); !types.empty()) {
    for (const std::string& type : types) {  // of the right number, by read_layers
      if (type != "linear_attention" && type != "full_attention")
        fields.refuse(kTypes, fmt::format("has '{}', expected linear_attention or full_attention", type));
      attends.push_back(type == "full_attention");
    }
  } else if (const std::vector<int64_t> recurrent = fields.list_or_empty(kRecurrent); !recurrent.empty()) {
    if (std::ssize(recurrent) != layers)
      fields.refuse(kRecurrent, fmt::format("has {} layers, the model has {}", recurrent.size(), layers));
    for (const int64_t one : recurrent) attends.push_back(one == 0);
  } else {
    const int64_t interval = fields.size_or(kInterval, 4, 1, 4096);
    for (int64_t i = 0; i < layers; ++i) attends.push_back((i + 1) % interval == 0);
  }
  return attends;
}

template <bool apart>  // Qwen 3.5, whose matrices are apart
Config read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  Config config{.decoder = read_mixed_config(fields, kNames), .sizes = {}, .attends = {}};
  DecoderConfig& decoder = config.decoder;
  // Layers that predict further tokens follow the others in GGUF files.
  const int64_t further = fields.size_or({"nextn_predict_layers", nullptr}, 0, 0, decoder.shape.layers - 1);
  const int64_t all_layers = decoder.shape.layers;
  decoder.shape.layers -= further;
  decoder.layers.resize(static_cast<size_t>(decoder.shape.layers));
  decoder.activation = read_activation(fields, Activation::kSilu);
  decoder.norm_offset = 1;
  decoder.ffn_norm_name = "post_attention_norm";
  decoder.qk_norm = QkNorm::kHead;
  decoder.gated_attention = true;
  decoder.mixture.normalized = true;
  read_mixture(fields, decoder);
  if (!apart) read_sparse_steps(fields, decoder);
  config.attends = read_attention_layers(fields, all_layers);
  config.attends.resize(static_cast<size_t>(decoder.shape.layers));
  config.sizes = read_delta_net(fields);
  config.sizes.tiled = apart;
  return config;
}

std::unique_ptr<TokenMixer> make_mixer(const Config& config, const MixerPlace& at) {
  if (config.attends[static_cast<size_t>(at.layer)]) return nullptr;
  return std::make_unique<DeltaNet>(config.decoder, config.sizes, at.weights, at.prefix);
}

template <bool apart>
void write_fields(const Config& config, const Checkpoint& checkpoint, GgufFields& fields) {
  write_decoder_fields(config.decoder, fields);
  write_delta_net(config.sizes, fields);
  // Early versions of llama.cpp know the interval alone.
  const auto first = std::ranges::find(config.attends, true);
  if (first != config.attends.end()) fields.size("full_attention_interval", first - config.attends.begin() + 1);
  std::vector<bool> recurrent = config.attends;
  recurrent.flip();
  fields.writer.add_bools(fields.architecture + ".attention.recurrent_layers", recurrent);
  if (!apart) return;
  // Rotary embeddings by time, height and width, which are one position in texts; llama.cpp requires the field.
  std::vector<int32_t> sections{11, 11, 10, 0};
  constexpr FieldName kSections{nullptr, "rope_parameters.mrope_section|rope_scaling.mrope_section"};
  const ConfigReader config_json(checkpoint);
  if (const std::vector<int64_t> given = config_json.sizes(kSections); !given.empty() && given.size() <= 4)
    std::ranges::transform(given, sections.begin(), [](int64_t size) { return static_cast<int32_t>(size); });
  fields.writer.add_i32s(fields.architecture + ".rope.dimension_sections", sections);
}

template <bool apart>
constexpr Family family(std::span<const std::string_view> architectures) {
  return mixer_family<read_config<apart>, make_mixer, write_fields<apart>>(architectures, kNames);
}

}  // namespace

extern const Family kQwen3Next, kQwen35, kQwen35Moe;
const Family kQwen3Next = family<false>(kNextNames);
const Family kQwen35 = family<true>(kQwen35Names);
const Family kQwen35Moe = family<true>(kQwen35MoeNames);

}  // namespace gabbro::llm::qwen_next
