// Falcon H1: layers in which attention and Mamba 2 read the same stream, with factors on what matrices get and give.
#include <fmt/format.h>

#include "src/models/llm/mixer_family.h"
#include "src/models/llm/mixers/state_space.h"

namespace gabbro::llm::falcon_h1 {
namespace {

constexpr std::string_view kArchitectures[] = {"falcon-h1", "falcon_h1"};

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
};
constexpr auto kNames = with_names(kOwn, kDecoderNames);

struct Config {
  DecoderConfig decoder;
  StateSpaceSizes sizes;
};

// Both read h, and their results are added.
class AttentionAndStates : public TokenMixer {
 public:
  AttentionAndStates(const Config& config, const MixerPlace& at)
      : attention_(config.decoder, config.decoder.layers[static_cast<size_t>(at.layer)], at.rope, at.weights,
                   at.prefix),
        states_(config.decoder, config.sizes, at.weights, at.prefix) {}

  nn::CacheLayer cache() const override {
    nn::CacheLayer layer = attention_.cache();
    layer.states = states_.cache().states;
    return layer;
  }

  Tensor operator()(const Tensor& h, const MixerStep& at) const override { return states_(h, at) + attention_(h, at); }

 private:
  SelfAttention attention_;
  Mamba2 states_;
};

float factor_of(const ConfigReader& fields, const char* name) {
  return fields.number_or({nullptr, name}, 1.0f, -1e6f, 1e6f);
}

std::vector<float> factors_of(const ConfigReader& fields, const char* name, int64_t count) {
  const FieldName field{nullptr, name};
  if (!fields.has(field)) return std::vector<float>(static_cast<size_t>(count), 1.0f);
  return fields.numbers(field, count, -1e6f, 1e6f);
}

// GGUF's matrices have the factors in them. Biases would need others.
void read_factors(const ConfigReader& fields, Config& config) {
  if (!fields.is_hugging_face()) return;
  for (const char* name : {"attention_bias", "mlp_bias", "mamba_proj_bias", "projectors_bias"}) {
    if (fields.flag_or({nullptr, name}, false)) fields.refuse({nullptr, name}, "is true, which is not supported");
  }
  constexpr FieldName kHead{nullptr, "lm_head_multiplier"}, kTied{nullptr, "tie_word_embeddings"};
  MatrixFactors& factors = config.decoder.factors;
  factors.token_embd = factor_of(fields, "embedding_multiplier");
  factors.output = factor_of(fields, "lm_head_multiplier");
  if (fields.flag_or(kTied, false) && factors.output != factors.token_embd)
    fields.refuse(kHead, "differs from embedding_multiplier, which a tied head does not support");
  factors.attn_q = factors.attn_v = factor_of(fields, "attention_in_multiplier");
  factors.attn_k = factors.attn_q * factor_of(fields, "key_multiplier");
  factors.attn_output = factor_of(fields, "attention_out_multiplier");
  const std::vector<float> of_block = factors_of(fields, "mlp_multipliers", 2);
  factors.ffn_gate = of_block[0];
  factors.ffn_down = of_block[1];
  StateSpaceSizes& sizes = config.sizes;
  sizes.out_factor = factor_of(fields, "ssm_out_multiplier");
  const float in = factor_of(fields, "ssm_in_multiplier");
  const std::vector<float> parts = factors_of(fields, "ssm_multipliers", 5);  // of z, x, b, c and step sizes
  sizes.in_factor = [in, parts, inner = sizes.inner, grouped = sizes.groups * sizes.states](int64_t row) {
    const int64_t ends[] = {inner, 2 * inner, 2 * inner + grouped, 2 * (inner + grouped)};
    size_t part = 0;
    while (part < std::size(ends) && row >= ends[part]) ++part;
    return in * parts[part];
  };
}

StateSpaceSizes read_sizes(const ConfigReader& fields, int64_t embedding) {
  StateSpaceSizes sizes = read_mamba2_sizes(fields, {"ssm.inner_size", "mamba_d_ssm"}, embedding);
  sizes.gate_last = fields.is_hugging_face() && fields.flag_or({nullptr, "mamba_norm_before_gate"}, true);
  return sizes;
}

Config read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  Config config{.decoder = read_decoder_config(fields, kNames), .sizes = {}};
  config.decoder.activation = read_activation(fields, Activation::kSilu);
  require_silu(fields, {nullptr, "hidden_act"});
  config.sizes = read_sizes(fields, config.decoder.shape.embedding);
  read_factors(fields, config);
  return config;
}

std::unique_ptr<TokenMixer> make_mixer(const Config& config, const MixerPlace& at) {
  return std::make_unique<AttentionAndStates>(config, at);
}

void write_fields(const Config& config, const Checkpoint& checkpoint, GgufFields& fields) {
  if (config.sizes.gate_last && has_weight(kNames, checkpoint, "blk.0.ssm_norm.weight"))
    ConfigReader(checkpoint).refuse({nullptr, "mamba_norm_before_gate"}, "is true, which GGUF files cannot say");
  write_decoder_fields(config.decoder, fields);
  write_state_space(config.sizes, fields);
}

}  // namespace

extern const Family kFalconH1;
const Family kFalconH1 = mixer_family<read_config, make_mixer, write_fields>(kArchitectures, kNames);

}  // namespace gabbro::llm::falcon_h1
