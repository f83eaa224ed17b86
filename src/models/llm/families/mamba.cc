// Mamba 1 and 2 and Falcon Mamba: layers of a state space alone.
#include <fmt/format.h>

#include <limits>

#include "src/models/llm/mixer_family.h"
#include "src/models/llm/mixers/state_space.h"

namespace gabbro::llm::mamba {
namespace {

constexpr std::string_view kNames1[] = {"mamba", "falcon_mamba"};
constexpr std::string_view kNames2[] = {"mamba2"};

constexpr WeightName kTensors[] = {
    {"token_embd", "backbone.embeddings"},
    {"output_norm", "backbone.norm_f"},
    {"output", "lm_head"},
    {"blk.{}.attn_norm", "backbone.layers.{}.norm"},
    {"blk.{}.ssm_in", "backbone.layers.{}.mixer.in_proj"},
    {"blk.{}.ssm_conv1d", "backbone.layers.{}.mixer.conv1d"},
    {"blk.{}.ssm_x", "backbone.layers.{}.mixer.x_proj"},
    {"blk.{}.ssm_dt.bias", "backbone.layers.{}.mixer.dt_bias", true},
    {"blk.{}.ssm_dt", "backbone.layers.{}.mixer.dt_proj"},
    {"blk.{}.ssm_a", "backbone.layers.{}.mixer.A_log", true},
    {"blk.{}.ssm_d", "backbone.layers.{}.mixer.D", true},
    {"blk.{}.ssm_norm", "backbone.layers.{}.mixer.norm"},
    {"blk.{}.ssm_out", "backbone.layers.{}.mixer.out_proj"},
};

struct Config {
  DecoderConfig decoder;
  StateSpaceSizes sizes;
};

template <bool second>
Config read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  require_silu(fields, {nullptr, "hidden_act"});
  constexpr FieldName kInner{"ssm.inner_size", "intermediate_size"}, kRank{"ssm.time_step_rank", "time_step_rank"};
  constexpr FieldName kHeads{"ssm.time_step_rank", "num_heads"}, kGroups{"ssm.group_count", "n_groups"};
  Config config;
  ModelShape& shape = config.decoder.shape;
  shape.layers = fields.size({"block_count", "num_hidden_layers|n_layer"}, 4096);
  shape.embedding = fields.size({"embedding_length", "hidden_size|d_model"}, 1 << 20);
  shape.context_trained = fields.size_or({"context_length", "max_position_embeddings"}, 1 << 20, 1, int64_t{1} << 32);
  shape.vocabulary = read_vocabulary(fields, kTensors);
  config.decoder.norm_epsilon = read_norm_epsilon(fields);
  config.decoder.may_be_tied = read_may_be_tied(fields);
  config.decoder.layers.assign(static_cast<size_t>(shape.layers), LayerKind{.rotated = false});

  StateSpaceSizes& sizes = config.sizes;
  const int64_t expand = fields.size_or({nullptr, "expand"}, 2, 1, 64);
  sizes.inner = fields.size_or(kInner, expand * shape.embedding, 1, 1 << 22);
  sizes.taps = fields.size_or({"ssm.conv_kernel", "conv_kernel"}, 4, 2, 8);
  sizes.states = fields.size_or({"ssm.state_size", "state_size"}, second ? 128 : 16, 1, 512);
  if (second) {
    sizes.rank = fields.size_or(kHeads, std::max<int64_t>(1, sizes.inner / 64), 1, 1 << 16);
    sizes.groups = fields.size_or(kGroups, 1, 1, sizes.rank);
    check_heads(fields, kHeads, kGroups, sizes);
    check_width(fields, {nullptr, "head_dim"}, sizes);
    read_step_bounds(fields, sizes);
  } else {
    sizes.rank = fields.size_or(kRank, (shape.embedding + 15) / 16, 1, 1 << 20);
    const bool falcon = fields.is_hugging_face() && architecture_of(checkpoint) == "falcon_mamba";
    sizes.normalized = fields.flag_or({"ssm.dt_b_c_rms", nullptr}, falcon);
    // FalconMambaConfig has an epsilon of the mixer's own; GGUF files of others have one for all norms.
    const float other = fields.is_hugging_face() ? 1e-6F : config.decoder.norm_epsilon;
    sizes.norm_epsilon = fields.number_or({"ssm.dt_b_c_rms_epsilon", "mixer_rms_eps"}, other, 0, 1);
  }
  // The recurrence's sizes stand for the sizes of attention, for the needs of a step.
  shape.heads = shape.kv_heads = 1;
  shape.head_dimension = 2 * sizes.inner;
  return config;
}

template <bool second>
std::unique_ptr<TokenMixer> make_mixer(const Config& config, const MixerPlace& at) {
  if (second) return std::make_unique<Mamba2>(config.decoder, config.sizes, at.weights, at.prefix);
  return std::make_unique<Mamba>(config.decoder, config.sizes, at.weights, at.prefix);
}

template <bool second>
void write_fields(const Config& config, const Checkpoint&, GgufFields& fields) {
  const ModelShape& s = config.decoder.shape;
  fields.size("block_count", s.layers);
  fields.size("context_length", s.context_trained);
  fields.size("embedding_length", s.embedding);
  fields.size("feed_forward_length", 0);
  fields.size("attention.head_count", 0);
  fields.size("vocab_size", s.vocabulary);
  fields.number("attention.layer_norm_rms_epsilon", config.decoder.norm_epsilon);
  if (second) {
    write_state_space(config.sizes, fields);
    return;
  }
  fields.size("ssm.conv_kernel", config.sizes.taps);
  fields.size("ssm.inner_size", config.sizes.inner);
  fields.size("ssm.state_size", config.sizes.states);
  fields.size("ssm.time_step_rank", config.sizes.rank);
  fields.writer.add_bool(fields.architecture + ".ssm.dt_b_c_rms", config.sizes.normalized);
  if (config.sizes.normalized) fields.number("ssm.dt_b_c_rms_epsilon", config.sizes.norm_epsilon);
}

template <bool second>
constexpr Family family(std::span<const std::string_view> architectures) {
  return mixer_family<read_config<second>, make_mixer<second>, write_fields<second>>(architectures, kTensors);
}

}  // namespace

extern const Family kMamba, kMamba2;
const Family kMamba = family<false>(kNames1);
const Family kMamba2 = family<true>(kNames2);

}  // namespace gabbro::llm::mamba
