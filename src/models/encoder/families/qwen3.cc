// Qwen 3 Embedding and Reranker: the language model, whose last token's state is the text's vector. It sees all of its
// keys in f32, where a language model's cache has them in f16.
#include "src/models/encoder/registry.h"
#include "src/models/llm/gguf_fields.h"

namespace gabbro::encoder {
namespace {

constexpr std::string_view kArchitectures[] = {"qwen3"};

constexpr WeightName kOwnNames[] = {
    // Embedding models are saved without the head, and then without its prefix.
    {"token_embd", "embed_tokens"},
    {"output_norm", "norm"},
    {"blk.{}.attn_norm", "layers.{}.input_layernorm"},
    {"blk.{}.attn_q", "layers.{}.self_attn.q_proj"},
    {"blk.{}.attn_k", "layers.{}.self_attn.k_proj"},
    {"blk.{}.attn_v", "layers.{}.self_attn.v_proj"},
    {"blk.{}.attn_q_norm", "layers.{}.self_attn.q_norm"},
    {"blk.{}.attn_k_norm", "layers.{}.self_attn.k_norm"},
    {"blk.{}.attn_output", "layers.{}.self_attn.o_proj"},
    {"blk.{}.ffn_norm", "layers.{}.post_attention_layernorm"},
    {"blk.{}.ffn_gate", "layers.{}.mlp.gate_proj"},
    {"blk.{}.ffn_up", "layers.{}.mlp.up_proj"},
    {"blk.{}.ffn_down", "layers.{}.mlp.down_proj"},
    {"cls.output", "score"},
};
constexpr auto kNames = llm::with_names(kOwnNames, llm::kDecoderNames);

EncoderConfig read_qwen3(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  const llm::DecoderConfig decoder = llm::read_decoder_config(fields, kNames);
  EncoderConfig config;
  config.shape = decoder.shape;
  config.norm = NormKind::kRms;
  config.norm_epsilon = decoder.norm_epsilon;
  config.norm_first = true;
  config.final_norm = true;
  config.causal = true;
  config.embedding_norm = false;
  config.rotated = true;
  config.rope = decoder.rope;
  config.qk_norm = QkNorm::kHead;
  config.attention_scale = decoder.attention_scale;
  config.usual_activation = Activation::kSilu;
  config.activation = llm::read_activation(fields, Activation::kSilu);
  config.gated = true;
  config.layers.resize(static_cast<size_t>(config.shape.layers));
  for (size_t i = 0; i < config.layers.size(); ++i) {
    // The window of a language model counts the token itself.
    if (decoder.layers[i].window > 0) config.layers[i].window = decoder.layers[i].window - 1;
  }
  config.pooling = Pooling::kLast;
  config.head.labels = read_rows(fields, kNames, "cls.output.weight");
  config.head.pooling = Pooling::kLast;
  config.answers = config.head.labels == 2 || (fields.is_hugging_face() && config.head.labels == 0 &&
                                               architecture_class(fields) == "Qwen3ForCausalLM");
  return config;
}

void write_qwen3(const Checkpoint& checkpoint, llm::GgufFields& fields) {
  llm::DecoderConfig decoder = llm::read_decoder_config(ConfigReader(checkpoint), kNames);
  decoder.qk_norm = QkNorm::kHead;
  llm::write_decoder_fields(decoder, fields);
}

}  // namespace

extern const Family kQwen3;
const Family kQwen3{
    .architectures = kArchitectures, .names = kNames, .read_config = read_qwen3, .write_fields = write_qwen3};

}  // namespace gabbro::encoder
