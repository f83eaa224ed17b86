// Jamba: Mamba 1 layers, with norms of the step sizes, b and c; every few layers attention without positional encoding
// in their place, or a mixture of experts.
#include <fmt/format.h>

#include "src/models/llm/mixer_family.h"
#include "src/models/llm/mixers/state_space.h"

namespace gabbro::llm::jamba {
namespace {

constexpr std::string_view kArchitectures[] = {"jamba"};

constexpr WeightName kOwn[] = {
    {"output_norm", "model.final_layernorm"},
    {"blk.{}.ssm_in", "model.layers.{}.mamba.in_proj"},
    {"blk.{}.ssm_conv1d", "model.layers.{}.mamba.conv1d"},
    {"blk.{}.ssm_x", "model.layers.{}.mamba.x_proj"},
    {"blk.{}.ssm_dt", "model.layers.{}.mamba.dt_proj"},
    {"blk.{}.ssm_dt_norm", "model.layers.{}.mamba.dt_layernorm"},
    {"blk.{}.ssm_b_norm", "model.layers.{}.mamba.b_layernorm"},
    {"blk.{}.ssm_c_norm", "model.layers.{}.mamba.c_layernorm"},
    {"blk.{}.ssm_a", "model.layers.{}.mamba.A_log", true},
    {"blk.{}.ssm_d", "model.layers.{}.mamba.D", true},
    {"blk.{}.ssm_out", "model.layers.{}.mamba.out_proj"},
    {"blk.{}.ffn_norm", "model.layers.{}.pre_ff_layernorm"},
    {"blk.{}.ffn_gate", "model.layers.{}.feed_forward.gate_proj"},
    {"blk.{}.ffn_up", "model.layers.{}.feed_forward.up_proj"},
    {"blk.{}.ffn_down", "model.layers.{}.feed_forward.down_proj"},
    {"blk.{}.ffn_gate_inp", "model.layers.{}.feed_forward.router"},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.feed_forward.experts.*.gate_proj"},
    {"blk.{}.ffn_up_exps", "model.layers.{}.feed_forward.experts.*.up_proj"},
    {"blk.{}.ffn_down_exps", "model.layers.{}.feed_forward.experts.*.down_proj"},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.feed_forward.experts.gate_up_proj", true},
    {"blk.{}.ffn_up_exps", "model.layers.{}.feed_forward.experts.gate_up_proj", true},
    {"blk.{}.ffn_down_exps", "model.layers.{}.feed_forward.experts.down_proj", true},
};
constexpr auto kNames = with_names(kOwn, kDecoderNames);

struct Config {
  DecoderConfig decoder;
  StateSpaceSizes sizes;
  std::vector<bool> attends;  // whether layer i is attention; else it is a state space
};

std::vector<bool> read_attention_layers(const ConfigReader& fields, int64_t layers) {
  constexpr FieldName kPeriod{nullptr, "attn_layer_period"}, kOffset{nullptr, "attn_layer_offset"};
  if (!fields.is_hugging_face()) return read_layers_with_heads(fields, layers);
  std::vector<bool> attends(static_cast<size_t>(layers));
  const int64_t period = fields.size_or(kPeriod, 8, 1, 4096), offset = fields.size_or(kOffset, 4, 0, period - 1);
  for (int64_t i = offset; i < layers; i += period) attends[static_cast<size_t>(i)] = true;
  return attends;
}

void read_mixed_layers(const ConfigReader& fields, DecoderConfig& config) {
  constexpr FieldName kPeriod{nullptr, "expert_layer_period"}, kOffset{nullptr, "expert_layer_offset"};
  if (fields.config_class() == nullptr || config.shape.experts == 0) return;
  const int64_t period = fields.size_or(kPeriod, 2, 1, 4096), offset = fields.size_or(kOffset, 1, 0, period - 1);
  for (int64_t i = 0; i < config.shape.layers; ++i) config.mixed_layers.push_back(i % period == offset);
}

Config read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  Config config{.decoder = read_mixed_config(fields, kNames), .sizes = {}, .attends = {}};
  DecoderConfig& decoder = config.decoder;
  decoder.activation = read_activation(fields, Activation::kSilu);
  require_silu(fields, {nullptr, "hidden_act"});
  read_mixture(fields, decoder);
  if (decoder.shape.experts == 1) decoder.shape.experts = 0;  // a dense block
  read_mixed_layers(fields, decoder);
  for (LayerKind& kind : decoder.layers) kind.rotated = false;
  config.attends = read_attention_layers(fields, decoder.shape.layers);
  const int64_t c = decoder.shape.embedding, expand = fields.size_or({nullptr, "mamba_expand"}, 2, 1, 64);
  StateSpaceSizes& sizes = config.sizes;
  sizes.norm_epsilon = config.decoder.norm_epsilon;
  sizes.inner = fields.size_or({"ssm.inner_size", nullptr}, expand * c, 1, 1 << 22);
  sizes.taps = fields.size_or({"ssm.conv_kernel", "mamba_d_conv"}, 4, 2, 8);
  sizes.states = fields.size_or({"ssm.state_size", "mamba_d_state"}, 16, 1, 512);
  sizes.rank = fields.size_or({"ssm.time_step_rank", "mamba_dt_rank"}, (c + 15) / 16, 1, 1 << 20);
  return config;
}

std::unique_ptr<TokenMixer> make_mixer(const Config& config, const MixerPlace& at) {
  if (config.attends[static_cast<size_t>(at.layer)]) return nullptr;
  return std::make_unique<Mamba>(config.decoder, config.sizes, at.weights, at.prefix);
}

void write_fields(const Config& config, const Checkpoint&, GgufFields& fields) {
  fields.set_kv_heads(config.attends, config.decoder.shape.kv_heads);
  write_decoder_fields(config.decoder, fields);
  fields.size("ssm.conv_kernel", config.sizes.taps);
  fields.size("ssm.inner_size", config.sizes.inner);
  fields.size("ssm.state_size", config.sizes.states);
  fields.size("ssm.time_step_rank", config.sizes.rank);
}

}  // namespace

extern const Family kJamba;
const Family kJamba = mixer_family<read_config, make_mixer, write_fields>(kArchitectures, kNames);

}  // namespace gabbro::llm::jamba
