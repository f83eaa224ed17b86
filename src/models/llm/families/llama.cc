// Llama 1 to 3, Mistral, Mixtral, Ministral, SmolLM 1 and 2, Yi, TinyLlama, Vicuna and others; Granite, which scales
// the stream.
#include "src/models/llm/decoder.h"
#include "src/models/llm/granite_factors.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::llama {
namespace {

constexpr std::string_view kLlamaNames[] = {"llama", "mistral", "ministral", "mixtral"};
constexpr std::string_view kGraniteNames[] = {"granite"}, kGraniteMoeNames[] = {"granitemoe", "granitemoeshared"};

// A mixture of experts has the architecture llama in GGUF.
constexpr WeightName kExperts[] = {
    {"blk.{}.ffn_gate_inp", "model.layers.{}.block_sparse_moe.gate"},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.block_sparse_moe.experts.*.w1"},
    {"blk.{}.ffn_up_exps", "model.layers.{}.block_sparse_moe.experts.*.w3"},
    {"blk.{}.ffn_down_exps", "model.layers.{}.block_sparse_moe.experts.*.w2"},
};
constexpr auto kNames = with_names(kExperts, kMixtureDecoderNames);
constexpr WeightName kGraniteExperts[] = {
    {"blk.{}.ffn_gate_inp", "model.layers.{}.block_sparse_moe.router.layer"},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.block_sparse_moe.input_linear"},
    {"blk.{}.ffn_up_exps", "model.layers.{}.block_sparse_moe.input_linear"},
    {"blk.{}.ffn_down_exps", "model.layers.{}.block_sparse_moe.output_linear"},
    {"blk.{}.ffn_gate_inp", "model.layers.{}.block_sparse_moe.router"},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.block_sparse_moe.experts.gate_up_proj", true},
    {"blk.{}.ffn_up_exps", "model.layers.{}.block_sparse_moe.experts.gate_up_proj", true},
    {"blk.{}.ffn_down_exps", "model.layers.{}.block_sparse_moe.experts.down_proj", true},
};
constexpr auto kGraniteMoeTensors = with_names(kGraniteExperts, kMixtureDecoderNames);

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_mixed_config(fields, kDecoderNames);
  config.mixture.normalized = true;
  read_mixture(fields, config);
  // granitemoeshared, the only one with a shared expert, stores its gate and up in one matrix.
  config.joined_gate = fields.has({"expert_shared_feed_forward_length", "shared_intermediate_size"});
  config.paired_heads = true;
  config.rope.interleaved = true;
  config.activation = read_activation(fields, Activation::kSilu);
  read_granite_factors(fields, config);
  return config;
}

}  // namespace

extern const Family kLlama, kGranite, kGraniteMoe;
const Family kLlama = decoder_family<read_config>(kLlamaNames, kNames);
const Family kGranite = decoder_family<read_config>(kGraniteNames, kDecoderNames);
const Family kGraniteMoe = decoder_family<read_config>(kGraniteMoeNames, kGraniteMoeTensors);

}  // namespace gabbro::llm::llama
