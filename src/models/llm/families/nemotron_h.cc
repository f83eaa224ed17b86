// Nemotron H: layers that are each one block, of Mamba 2, of attention without positions, feed-forward, or a mixture of
// experts without gates.
#include <fmt/format.h>

#include <algorithm>

#include "src/models/llm/decoder.h"
#include "src/models/llm/mixers/state_space.h"
#include "src/models/llm/mixture.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::nemotron_h {
namespace {

constexpr std::string_view kArchitectures[] = {"nemotron_h", "nemotron_h_moe"};

// transformers 5 writes "backbone" as "model".
constexpr WeightName kNames[] = {
    {"token_embd", "backbone.embeddings"},
    {"token_embd", "model.embeddings"},
    {"output_norm", "backbone.norm_f"},
    {"output_norm", "model.norm_f"},
    {"output", "lm_head"},
    {"blk.{}.attn_norm", "backbone.layers.{}.norm"},
    {"blk.{}.ssm_in", "backbone.layers.{}.mixer.in_proj"},
    {"blk.{}.ssm_conv1d", "backbone.layers.{}.mixer.conv1d"},
    {"blk.{}.ssm_dt.bias", "backbone.layers.{}.mixer.dt_bias", true},
    {"blk.{}.ssm_a", "backbone.layers.{}.mixer.A_log", true},
    {"blk.{}.ssm_d", "backbone.layers.{}.mixer.D", true},
    {"blk.{}.ssm_norm", "backbone.layers.{}.mixer.norm"},
    {"blk.{}.ssm_out", "backbone.layers.{}.mixer.out_proj"},
    {"blk.{}.attn_q", "backbone.layers.{}.mixer.q_proj"},
    {"blk.{}.attn_k", "backbone.layers.{}.mixer.k_proj"},
    {"blk.{}.attn_v", "backbone.layers.{}.mixer.v_proj"},
    {"blk.{}.attn_output", "backbone.layers.{}.mixer.o_proj"},
    {"blk.{}.ffn_up", "backbone.layers.{}.mixer.up_proj"},
    {"blk.{}.ffn_down", "backbone.layers.{}.mixer.down_proj"},
    {"blk.{}.attn_norm", "model.layers.{}.norm"},
    {"blk.{}.ssm_in", "model.layers.{}.mixer.in_proj"},
    {"blk.{}.ssm_conv1d", "model.layers.{}.mixer.conv1d"},
    {"blk.{}.ssm_dt.bias", "model.layers.{}.mixer.dt_bias", true},
    {"blk.{}.ssm_a", "model.layers.{}.mixer.A_log", true},
    {"blk.{}.ssm_d", "model.layers.{}.mixer.D", true},
    {"blk.{}.ssm_norm", "model.layers.{}.mixer.norm"},
    {"blk.{}.ssm_out", "model.layers.{}.mixer.out_proj"},
    {"blk.{}.attn_q", "model.layers.{}.mixer.q_proj"},
    {"blk.{}.attn_k", "model.layers.{}.mixer.k_proj"},
    {"blk.{}.attn_v", "model.layers.{}.mixer.v_proj"},
    {"blk.{}.attn_output", "model.layers.{}.mixer.o_proj"},
    {"blk.{}.ffn_up", "model.layers.{}.mixer.up_proj"},
    {"blk.{}.ffn_down", "model.layers.{}.mixer.down_proj"},
    {"blk.{}.ffn_gate_inp", "backbone.layers.{}.mixer.gate"},
    {"blk.{}.exp_probs_b", "backbone.layers.{}.mixer.gate.e_score_correction_bias", true},
    {"blk.{}.ffn_up_exps", "backbone.layers.{}.mixer.experts.*.up_proj"},
    {"blk.{}.ffn_down_exps", "backbone.layers.{}.mixer.experts.*.down_proj"},
    {"blk.{}.ffn_up_exps", "backbone.layers.{}.mixer.experts.up_proj", true},
    {"blk.{}.ffn_down_exps", "backbone.layers.{}.mixer.experts.down_proj", true},
    {"blk.{}.ffn_up_shexp", "backbone.layers.{}.mixer.shared_experts.up_proj"},
    {"blk.{}.ffn_down_shexp", "backbone.layers.{}.mixer.shared_experts.down_proj"},
    {"blk.{}.ffn_gate_inp", "model.layers.{}.mixer.gate"},
    {"blk.{}.exp_probs_b", "model.layers.{}.mixer.gate.e_score_correction_bias", true},
    {"blk.{}.ffn_up_exps", "model.layers.{}.mixer.experts.*.up_proj"},
    {"blk.{}.ffn_down_exps", "model.layers.{}.mixer.experts.*.down_proj"},
    {"blk.{}.ffn_up_exps", "model.layers.{}.mixer.experts.up_proj", true},
    {"blk.{}.ffn_down_exps", "model.layers.{}.mixer.experts.down_proj", true},
    {"blk.{}.ffn_up_shexp", "model.layers.{}.mixer.shared_experts.up_proj"},
    {"blk.{}.ffn_down_shexp", "model.layers.{}.mixer.shared_experts.down_proj"},
};

enum class Block { kStates, kAttention, kFeedForward, kExperts };

struct Config {
  DecoderConfig decoder;
  StateSpaceSizes sizes;
  std::vector<Block> blocks;  // of each layer
};

// A feed-forward block in the place of a mixer.
class BlockAlone : public TokenMixer {
 public:
  BlockAlone(const DecoderConfig& config, const MixerPlace& at) : block_(config, at.weights, at.prefix, at.layer) {}

  nn::CacheLayer cache() const override { return {.kind = nn::CacheKind::kState}; }
  Tensor operator()(const Tensor& h, const MixerStep& at) const override {
    return block_(at.rows.defined() ? gather(h, at.rows) : h, at.step);
  }

 private:
  FeedForward block_;
};

Block block_of_type(const ConfigReader& fields, FieldName field, const std::string& type) {
  if (type == "M" || type == "mamba" || type == "linear_attention") return Block::kStates;
  if (type == "*" || type == "attention" || type == "full_attention") return Block::kAttention;
  if (type == "-" || type == "mlp") return Block::kFeedForward;
  if (type == "E" || type == "moe") return Block::kExperts;
  fields.refuse(field, fmt::format("has '{}', expected linear_attention, full_attention, mlp or moe", type));
}

std::vector<Block> read_blocks(const ConfigReader& fields, int64_t layers) {
  constexpr FieldName kTypes{nullptr, "layers_block_type|layer_types"}, kPattern{nullptr, "hybrid_override_pattern"};
  constexpr FieldName kHeads{"attention.head_count_kv", nullptr}, kWidths{"feed_forward_length", nullptr};
  std::vector<Block> blocks;
  if (!fields.is_hugging_face()) {
    const std::vector<int64_t> heads = fields.list_or_empty(kHeads), widths = fields.list_or_empty(kWidths);
    if (std::ssize(heads) != layers) fields.refuse(kHeads, fmt::format("is not a list of {} layers", layers));
    if (std::ssize(widths) != layers) fields.refuse(kWidths, fmt::format("is not a list of {} layers", layers));
    const Block wide = fields.size_or(kExpertCount, 0, 0, 1 << 16) > 0 ? Block::kExperts : Block::kFeedForward;
    for (size_t i = 0; i < heads.size(); ++i)
      blocks.push_back(heads[i] != 0 ? Block::kAttention : widths[i] != 0 ? wide : Block::kStates);
    return blocks;
  }
  const bool listed = fields.has(kTypes);
  if (!listed && !fields.has(kPattern) && fields.config_class() != nullptr) {  // the class's default
    blocks = {Block::kStates, Block::kExperts, Block::kAttention, Block::kFeedForward};
  } else if (listed) {
    for (const std::string& type : fields.texts(kTypes)) blocks.push_back(block_of_type(fields, kTypes, type));
  } else {
    for (const char letter : fields.text_or(kPattern, ""))
      blocks.push_back(block_of_type(fields, kPattern, std::string(1, letter)));
  }
  if (std::ssize(blocks) != layers) {
    fields.refuse(listed ? kTypes : kPattern, fmt::format("has {} layers, the model has {}", blocks.size(), layers));
  }
  return blocks;
}

StateSpaceSizes read_sizes(const ConfigReader& fields) {
  constexpr FieldName kHeads{"ssm.time_step_rank", "mamba_num_heads"}, kInner{"ssm.inner_size", nullptr};
  constexpr FieldName kGroups{"ssm.group_count", "mamba_n_groups|n_groups"};
  StateSpaceSizes sizes;
  sizes.rank = fields.size_or(kHeads, 128, 1, 1 << 16);
  sizes.inner = fields.size_or(kInner, sizes.rank * fields.size_or({nullptr, "mamba_head_dim"}, 64, 1, 1 << 10), 1,
                               int64_t{1} << 26);
  sizes.taps = fields.size_or({"ssm.conv_kernel", "mamba_d_conv|conv_kernel"}, 4, 2, 8);
  sizes.states = fields.size_or({"ssm.state_size", "ssm_state_size"}, 128, 1, 512);
  sizes.groups = fields.size_or(kGroups, 8, 1, sizes.rank);
  check_heads(fields, kHeads, kGroups, sizes);
  sizes.shortest = fields.number_or({"ssm.time_step_min", "mamba_dt_min|time_step_min"},
                                    fields.is_hugging_face() ? 1e-3f : 0.0f, 0.0f, 1e6f);
  return sizes;
}

// llama.cpp has mixtures in all layers with feed-forward blocks or in none.
void read_experts(const ConfigReader& fields, Config& config) {
  constexpr FieldName kLatent{"moe_latent_size", "moe_latent_size"};
  if (fields.size_or(kLatent, 0, 0, 1 << 20) != 0)
    fields.refuse(kLatent, "is given: experts between projections are not supported");
  config.decoder.mixture.score = RouterScore::kSigmoid;
  config.decoder.mixture.normalized = true;
  read_mixture(fields, config.decoder);
}

Config read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  constexpr FieldName kActivation{nullptr, "mlp_hidden_act"};
  require_silu(fields, {nullptr, "mamba_hidden_act"});
  Config config{.decoder = read_mixed_config(fields, kNames), .sizes = {}, .blocks = {}};
  DecoderConfig& decoder = config.decoder;
  decoder.gated = false;
  decoder.activation = Activation::kReluSquared;
  if (const std::string name = fields.text_or(kActivation, "relu2"); name != "relu2")
    fields.refuse(kActivation, fmt::format("is '{}', expected relu2", name));
  for (LayerKind& kind : decoder.layers) kind.rotated = false;
  config.blocks = read_blocks(fields, decoder.shape.layers);
  if (std::ranges::find(config.blocks, Block::kExperts) != config.blocks.end()) read_experts(fields, config);
  config.sizes = read_sizes(fields);
  return config;
}

std::unique_ptr<LanguageModel> build(const Checkpoint& checkpoint, WeightSource& weights, int64_t context) {
  const Config config = read_config(checkpoint);
  DecoderConfig trunk = config.decoder;
  trunk.shape.feed_forward = 0;  // no block after a layer's
  return std::make_unique<Decoder>(
      std::move(trunk), checkpoint, weights, context, [&](const MixerPlace& at) -> std::unique_ptr<TokenMixer> {
        const Block block = config.blocks[static_cast<size_t>(at.layer)];
        if (block == Block::kAttention) return nullptr;
        if (block != Block::kStates) return std::make_unique<BlockAlone>(config.decoder, at);
        return std::make_unique<Mamba2>(config.decoder, config.sizes, at.weights, at.prefix);
      });
}

void write_fields(const Checkpoint& checkpoint, GgufFields& fields) {
  const Config config = read_config(checkpoint);
  const ModelShape& shape = config.decoder.shape;
  fields.kv_heads_by_layer.clear();
  fields.feed_forward_by_layer.clear();
  const auto width_of = [&](Block block) -> int64_t {
    if (block == Block::kExperts) return shape.expert_feed_forward;
    return block == Block::kFeedForward ? shape.feed_forward : 0;
  };
  for (const Block block : config.blocks) {
    fields.kv_heads_by_layer.push_back(block == Block::kAttention ? static_cast<int32_t>(shape.kv_heads) : 0);
    fields.feed_forward_by_layer.push_back(static_cast<int32_t>(width_of(block)));
  }
  write_decoder_fields(config.decoder, fields);
  fields.number("attention.layer_norm_epsilon", config.decoder.norm_epsilon);  // llama.cpp asks for both
  write_state_space(config.sizes, fields);
}

}  // namespace

extern const Family kNemotronH;
const Family kNemotronH = {
    .architectures = kArchitectures,
    .names = kNames,
    .read_shape = [](const Checkpoint& checkpoint) { return read_config(checkpoint).decoder.shape; },
    .build = build,
    .write_fields = write_fields,
};

}  // namespace gabbro::llm::nemotron_h
