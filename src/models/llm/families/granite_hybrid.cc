// Granite 4 and Bamba: layers of Mamba 2, and among them some of attention; Granite 4 has a shared block, alone or next
// to a mixture of experts, and Granite's factors.
#include <fmt/format.h>

#include <algorithm>

#include "src/models/llm/granite_factors.h"
#include "src/models/llm/mixer_family.h"
#include "src/models/llm/mixers/state_space.h"

namespace gabbro::llm::granite_hybrid {
namespace {

constexpr std::string_view kArchitectures[] = {"granitehybrid", "granitemoehybrid", "bamba"};

constexpr WeightName kOwn[] = {
    {"output_norm", "model.final_layernorm"},
    {"blk.{}.ssm_in", "model.layers.{}.mamba.in_proj"},
    {"blk.{}.ssm_conv1d", "model.layers.{}.mamba.conv1d"},
    {"blk.{}.ssm_dt.bias", "model.layers.{}.mamba.dt_bias", true},
    {"blk.{}.ssm_a", "model.layers.{}.mamba.A_log", true},
    {"blk.{}.ssm_d", "model.layers.{}.mamba.D", true},
    {"blk.{}.ssm_norm", "model.layers.{}.mamba.norm"},
    {"blk.{}.ssm_out", "model.layers.{}.mamba.out_proj"},
    {"blk.{}.ffn_norm", "model.layers.{}.pre_ff_layernorm"},
    {"blk.{}.ffn_gate", "model.layers.{}.feed_forward.gate_proj"},
    {"blk.{}.ffn_up", "model.layers.{}.feed_forward.up_proj"},
    {"blk.{}.ffn_down", "model.layers.{}.feed_forward.down_proj"},
    {"blk.{}.ffn_gate", "model.layers.{}.shared_mlp.input_linear"},
    {"blk.{}.ffn_up", "model.layers.{}.shared_mlp.input_linear"},
    {"blk.{}.ffn_down", "model.layers.{}.shared_mlp.output_linear"},
    {"blk.{}.ffn_gate_inp", "model.layers.{}.block_sparse_moe.router.layer"},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.block_sparse_moe.input_linear"},
    {"blk.{}.ffn_up_exps", "model.layers.{}.block_sparse_moe.input_linear"},
    {"blk.{}.ffn_down_exps", "model.layers.{}.block_sparse_moe.output_linear"},
    {"blk.{}.ffn_gate_inp", "model.layers.{}.block_sparse_moe.router"},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.block_sparse_moe.experts.gate_up_proj", true},
    {"blk.{}.ffn_up_exps", "model.layers.{}.block_sparse_moe.experts.gate_up_proj", true},
    {"blk.{}.ffn_down_exps", "model.layers.{}.block_sparse_moe.experts.down_proj", true},
};
constexpr auto kNames = with_names(kOwn, kMixtureDecoderNames);

struct Config {
  DecoderConfig decoder;
  StateSpaceSizes sizes;
  std::vector<bool> attends;  // of each layer; the others are state spaces
};

std::vector<bool> read_attention_layers(const ConfigReader& fields, int64_t layers) {
  constexpr FieldName kTypes{nullptr, "layer_types|layers_block_type"}, kIndices{nullptr, "attn_layer_indices"};
  if (!fields.is_hugging_face()) return read_layers_with_heads(fields, layers);
  std::vector<bool> attends(static_cast<size_t>(layers));
  if (const std::vector<std::string> types = fields.texts(kTypes); !types.empty()) {
    if (std::ssize(types) != layers)
      fields.refuse(kTypes, fmt::format("has {} layers, the model has {}", types.size(), layers));
    for (size_t i = 0; i < types.size(); ++i) attends[i] = types[i] == "attention" || types[i] == "full_attention";
  } else {
    for (const int64_t index : fields.sizes(kIndices)) {
      if (index < 0 || index >= layers) fields.refuse(kIndices, fmt::format("has layer {} of {}", index, layers));
      attends[static_cast<size_t>(index)] = true;
    }
  }
  return attends;
}

// Granite's factors, and where its feed-forward block has its width.
void read_granite(const ConfigReader& fields, DecoderConfig& decoder) {
  constexpr FieldName kShared{nullptr, "shared_intermediate_size"};
  decoder.mixture.normalized = true;
  read_mixture(fields, decoder);
  decoder.joined_gate = fields.has(kShared);
  if (decoder.joined_gate && decoder.shape.experts == 0) decoder.shape.feed_forward = fields.size(kShared, 1 << 22);
  read_granite_factors(fields, decoder);
}

Config read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  Config config{.decoder = read_mixed_config(fields, kNames), .sizes = {}, .attends = {}};
  DecoderConfig& decoder = config.decoder;
  read_granite(fields, decoder);
  decoder.activation = read_activation(fields, Activation::kSilu);
  decoder.paired_heads = true;
  decoder.rope.interleaved = true;
  require_silu(fields, {nullptr, "hidden_act"});
  const bool bamba = fields.is_hugging_face() && architecture_of(checkpoint) == "bamba";
  constexpr FieldName kRotated{nullptr, "attn_rotary_emb"};
  if (bamba)
    decoder.rope.dimensions = fields.size_or(kRotated, decoder.rope.dimensions, 2, decoder.shape.head_dimension);
  if (decoder.rope.dimensions % 2 != 0) fields.refuse(kRotated, "is odd");
  const bool rotated = fields.is_hugging_face()
                           ? bamba || fields.text_or({nullptr, "position_embedding_type"}, "nope") == "rope"
                           : fields.flag_or({"rope.scaling.finetuned", nullptr}, false);
  for (LayerKind& kind : decoder.layers) kind.rotated = rotated;
  config.attends = read_attention_layers(fields, decoder.shape.layers);
  config.sizes = read_mamba2_sizes(fields, {"ssm.inner_size", nullptr}, decoder.shape.embedding);
  return config;
}

std::unique_ptr<TokenMixer> make_mixer(const Config& config, const MixerPlace& at) {
  if (config.attends[static_cast<size_t>(at.layer)]) return nullptr;
  return std::make_unique<Mamba2>(config.decoder, config.sizes, at.weights, at.prefix);
}

void write_fields(const Config& config, const Checkpoint&, GgufFields& fields) {
  fields.set_kv_heads(config.attends, config.decoder.shape.kv_heads);
  write_decoder_fields(config.decoder, fields);
  write_state_space(config.sizes, fields);
  fields.writer.add_bool(fields.architecture + ".rope.scaling.finetuned", config.decoder.layers.front().rotated);
}

}  // namespace

extern const Family kGraniteHybrid;
const Family kGraniteHybrid = mixer_family<read_config, make_mixer, write_fields>(kArchitectures, kNames);

}  // namespace gabbro::llm::granite_hybrid
