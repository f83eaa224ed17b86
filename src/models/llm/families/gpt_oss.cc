// gpt-oss: attention with a sink in each softmax and a window in every other layer, biases everywhere, and a mixture of
// experts whose gate and factor are held within limits.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::gpt_oss {
namespace {

constexpr std::string_view kArchitectures[] = {"gpt-oss", "gpt_oss"};

constexpr WeightName kNames[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {"blk.{}.attn_norm", "model.layers.{}.input_layernorm"},
    {"blk.{}.attn_q", "model.layers.{}.self_attn.q_proj"},
    {"blk.{}.attn_k", "model.layers.{}.self_attn.k_proj"},
    {"blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"},
    {"blk.{}.attn_sinks", "model.layers.{}.self_attn.sinks", true},
    {"blk.{}.attn_output", "model.layers.{}.self_attn.o_proj"},
    {"blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"},
    {"blk.{}.ffn_gate_inp", "model.layers.{}.mlp.router"},
    {"blk.{}.ffn_gate_exps.weight", "model.layers.{}.mlp.experts.gate_up_proj", true},
    {"blk.{}.ffn_gate_exps.bias", "model.layers.{}.mlp.experts.gate_up_proj_bias", true},
    {"blk.{}.ffn_up_exps.weight", "model.layers.{}.mlp.experts.gate_up_proj", true},
    {"blk.{}.ffn_up_exps.bias", "model.layers.{}.mlp.experts.gate_up_proj_bias", true},
    {"blk.{}.ffn_down_exps.weight", "model.layers.{}.mlp.experts.down_proj", true},
    {"blk.{}.ffn_down_exps.bias", "model.layers.{}.mlp.experts.down_proj_bias", true},
};

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_mixed_config(fields, kNames);
  config.ffn_norm_name = "post_attention_norm";
  config.attention_sinks = true;
  config.layers = read_layers(fields, config.shape.layers, {.pattern = 2});
  // Files by llama.cpp do not say that the ramp of YaRN begins and ends between pairs.
  if (!fields.is_hugging_face() && !fields.has({"rope.scaling.yarn_truncate", nullptr}))
    config.rope.whole_pairs = false;
  config.activation = Activation::kClampedSwish;
  config.mixture.score = RouterScore::kChosenSoftmax;
  config.mixture.router_bias = config.mixture.biases = true;
  config.mixture.swish.alpha = fields.number_or({"expert_swiglu_alpha", "swiglu_alpha"}, 1.702f, 0.0f, 100.0f);
  config.mixture.swish.limit = fields.number_or({"expert_swiglu_limit", "swiglu_limit"}, 7.0f, 0.0f, 1e4f);
  config.transposed_experts = config.interleaved_experts = true;
  read_mixture(fields, config);
  if (config.shape.experts == 0) fields.refuse(kExpertCount, "is 0 or missing, and there are no dense models");
  return config;
}

}  // namespace

extern const Family kGptOss;
const Family kGptOss = decoder_family<read_config>(kArchitectures, kNames);

}  // namespace gabbro::llm::gpt_oss
