// GPT-NeoX and Pythia: both blocks in parallel, each with a norm; each head has its query, key and value together.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::gpt_neox {
namespace {

constexpr std::string_view kArchitectures[] = {"gptneox", "gpt_neox"};

constexpr WeightName kNames[] = {
    {"token_embd", "gpt_neox.embed_in"},
    {"output_norm", "gpt_neox.final_layer_norm"},
    {"output", "embed_out"},
    {"blk.{}.attn_norm", "gpt_neox.layers.{}.input_layernorm"},
    {"blk.{}.attn_qkv", "gpt_neox.layers.{}.attention.query_key_value"},
    {"blk.{}.attn_output", "gpt_neox.layers.{}.attention.dense"},
    {"blk.{}.ffn_norm", "gpt_neox.layers.{}.post_attention_layernorm"},
    {"blk.{}.ffn_up", "gpt_neox.layers.{}.mlp.dense_h_to_4h"},
    {"blk.{}.ffn_down", "gpt_neox.layers.{}.mlp.dense_4h_to_h"},
};

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kNames);
  config.norm = NormKind::kLayer;
  config.parallel = fields.flag_or({"use_parallel_residual", "use_parallel_residual"}, true);
  config.fused_rows = rows_by_group(config.shape);
  config.gated = false;
  config.activation = read_activation(fields, Activation::kGelu);
  return config;
}

}  // namespace

extern const Family kGptNeox;
const Family kGptNeox = decoder_family<read_config>(kArchitectures, kNames);

}  // namespace gabbro::llm::gpt_neox
