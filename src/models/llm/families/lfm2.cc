// LFM 2, dense and mixtures of experts: layers of short convolutions, and among them some of attention with norms of
// queries and keys.
#include <fmt/format.h>

#include "src/models/llm/mixer_family.h"
#include "src/models/llm/mixers/short_conv.h"

namespace gabbro::llm::lfm2 {
namespace {

constexpr std::string_view kDense[] = {"lfm2"};
constexpr std::string_view kMixed[] = {"lfm2moe", "lfm2_moe"};

// llama.cpp calls the norm after the last layer token_embd_norm.
constexpr WeightName kNames[] = {
    {"token_embd", "model.embed_tokens"},
    {"token_embd_norm", "model.embedding_norm"},
    {"output", "lm_head"},
    {"blk.{}.attn_norm", "model.layers.{}.operator_norm"},
    {"blk.{}.attn_q", "model.layers.{}.self_attn.q_proj"},
    {"blk.{}.attn_k", "model.layers.{}.self_attn.k_proj"},
    {"blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"},
    {"blk.{}.attn_q_norm", "model.layers.{}.self_attn.q_layernorm"},
    {"blk.{}.attn_k_norm", "model.layers.{}.self_attn.k_layernorm"},
    {"blk.{}.attn_output", "model.layers.{}.self_attn.out_proj"},
    {"blk.{}.shortconv.conv", "model.layers.{}.conv.conv"},
    {"blk.{}.shortconv.in_proj", "model.layers.{}.conv.in_proj"},
    {"blk.{}.shortconv.out_proj", "model.layers.{}.conv.out_proj"},
    {"blk.{}.ffn_norm", "model.layers.{}.ffn_norm"},
    {"blk.{}.ffn_gate", "model.layers.{}.feed_forward.w1"},
    {"blk.{}.ffn_up", "model.layers.{}.feed_forward.w3"},
    {"blk.{}.ffn_down", "model.layers.{}.feed_forward.w2"},
    {"blk.{}.ffn_gate_inp", "model.layers.{}.feed_forward.gate"},
    {"blk.{}.exp_probs_b.bias", "model.layers.{}.feed_forward.expert_bias", true},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.feed_forward.experts.*.w1"},
    {"blk.{}.ffn_up_exps", "model.layers.{}.feed_forward.experts.*.w3"},
    {"blk.{}.ffn_down_exps", "model.layers.{}.feed_forward.experts.*.w2"},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.feed_forward.experts.gate_up_proj", true},
    {"blk.{}.ffn_up_exps", "model.layers.{}.feed_forward.experts.gate_up_proj", true},
    {"blk.{}.ffn_down_exps", "model.layers.{}.feed_forward.experts.down_proj", true},
};

struct Config {
  DecoderConfig decoder;
  int64_t taps = 3;
  std::vector<bool> attends;  // of each layer; the others are convolutions
};

// The width that the model was made with, of the one in config.json.
int64_t read_feed_forward(const ConfigReader& fields, int64_t given) {
  if (!fields.is_hugging_face()) return given;
  given = fields.size_or({nullptr, "block_ff_dim"}, given, 1, 1 << 22);
  if (!fields.flag_or({nullptr, "block_auto_adjust_ff_dim"}, true)) return given;
  const int64_t multiple = fields.size_or({nullptr, "block_multiple_of"}, 256, 1, 1 << 20);
  const float factor = fields.number_or({nullptr, "block_ffn_dim_multiplier"}, 1.0f, 1e-3f, 1e3f);
  const auto width = static_cast<int64_t>(factor * static_cast<float>(2 * given / 3));
  return (width + multiple - 1) / multiple * multiple;
}

std::vector<bool> read_attention_layers(const ConfigReader& fields, int64_t layers) {
  constexpr FieldName kTypes{nullptr, "layer_types"}, kIndices{nullptr, "full_attn_idxs"};
  if (!fields.is_hugging_face()) return read_layers_with_heads(fields, layers);
  std::vector<bool> attends(static_cast<size_t>(layers), true);
  if (const std::vector<std::string> types = fields.texts(kTypes); !types.empty()) {
    if (std::ssize(types) != layers)
      fields.refuse(kTypes, fmt::format("has {} layers, the model has {}", types.size(), layers));
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i] != "conv" && types[i] != "full_attention")
        fields.refuse(kTypes, fmt::format("has '{}', expected conv or full_attention", types[i]));
      attends[i] = types[i] == "full_attention";
    }
  } else if (fields.has(kIndices)) {
    attends.assign(attends.size(), false);
    for (const int64_t index : fields.sizes(kIndices)) {
      if (index < 0 || index >= layers) fields.refuse(kIndices, fmt::format("has layer {} of {}", index, layers));
      attends[static_cast<size_t>(index)] = true;
    }
  }
  return attends;
}

Config read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  Config config{.decoder = read_mixed_config(fields, kNames), .attends = {}};
  DecoderConfig& decoder = config.decoder;
  decoder.output_norm_name = "token_embd_norm";
  decoder.qk_norm = QkNorm::kHead;
  decoder.mixture.score = RouterScore::kSigmoid;
  decoder.mixture.normalized = true;
  read_mixture(fields, decoder);
  read_leading_dense(fields, {nullptr, "num_dense_layers"}, decoder);
  if (decoder.shape.experts == 0) decoder.shape.feed_forward = read_feed_forward(fields, decoder.shape.feed_forward);
  constexpr FieldName kChoiceBias{nullptr, "use_expert_bias"};
  if (decoder.shape.experts > 0) decoder.mixture.choice_bias = fields.flag_or(kChoiceBias, true);
  config.taps = fields.size_or({"shortconv.l_cache", "conv_L_cache"}, 3, 2, 8);
  config.attends = read_attention_layers(fields, decoder.shape.layers);
  return config;
}

std::unique_ptr<TokenMixer> make_mixer(const Config& config, const MixerPlace& at) {
  if (config.attends[static_cast<size_t>(at.layer)]) return nullptr;
  return std::make_unique<ShortConv>(config.decoder, config.taps, at.weights, at.prefix);
}

void write_fields(const Config& config, const Checkpoint&, GgufFields& fields) {
  fields.set_kv_heads(config.attends, config.decoder.shape.kv_heads);
  write_decoder_fields(config.decoder, fields);
  fields.size("shortconv.l_cache", config.taps);
}

}  // namespace

extern const Family kLfm2, kLfm2Moe;
const Family kLfm2 = mixer_family<read_config, make_mixer, write_fields>(kDense, kNames);
const Family kLfm2Moe = mixer_family<read_config, make_mixer, write_fields>(kMixed, kNames);

}  // namespace gabbro::llm::lfm2
