#include "src/models/llm/llama_config.h"

#include <fmt/format.h>

#include <cmath>

#include "src/base/error.h"
#include "src/models/llm/config_reader.h"

namespace gabbro::llm {

LlamaConfig read_llama_config(const Checkpoint& checkpoint) {
  constexpr FieldName kHeads{"attention.head_count", "num_attention_heads"},
      kKvHeads{"attention.head_count_kv", "num_key_value_heads"}, kHeadDimension{"attention.key_length", "head_dim"};
  const ConfigReader fields(checkpoint);
  LlamaConfig config;
  ModelShape& shape = config.shape;
  shape.layers = fields.size({"block_count", "num_hidden_layers"}, 4096);
  shape.embedding = fields.size({"embedding_length", "hidden_size"}, 1 << 20);
  shape.heads = fields.size(kHeads, 1 << 14);
  shape.kv_heads = fields.size_or(kKvHeads, shape.heads, 1, shape.heads);
  if (shape.heads % shape.kv_heads != 0) {
    fields.refuse(kKvHeads, fmt::format("is {}, which does not divide the {} heads", shape.kv_heads, shape.heads));
  }
  if (!fields.has(kHeadDimension) && shape.embedding % shape.heads != 0) {
    fields.refuse(kHeads,
                  fmt::format("is {}, which does not divide the embedding length {}", shape.heads, shape.embedding));
  }
  shape.head_dimension = fields.size_or(kHeadDimension, shape.embedding / shape.heads, 2, 1 << 12);
  constexpr FieldName kValueLength{"attention.value_length", nullptr};
  if (fields.size_or(kValueLength, shape.head_dimension, 1, 1 << 12) != shape.head_dimension)
    fields.refuse(kValueLength, "differs from the key length, which is not supported");
  shape.context_trained = fields.size({"context_length", "max_position_embeddings"}, int64_t{1} << 32);
  shape.feed_forward = fields.size({"feed_forward_length", "intermediate_size"}, 1 << 22);
  const float epsilon = fields.is_hugging_face() ? 1e-6f : 1e-5f;  // defaults of transformers and of llama.cpp
  config.norm_epsilon = fields.number_or({"attention.layer_norm_rms_epsilon", "rms_norm_eps"}, epsilon, 0.0f, 1.0f);
  config.attention_scale = fields.number_or({"attention.scale", "attention_multiplier"}, 0.0f, 0.0f, 1e3f);
  if (config.attention_scale == 0) config.attention_scale = 1 / std::sqrt(static_cast<float>(shape.head_dimension));
  config.window = fields.size_or({"attention.sliding_window", "sliding_window"}, 0, 0, int64_t{1} << 32);
  // Heads of the weights are permuted for pairs (2i, 2i + 1) in GGUF files, and while those of transformers are loaded.
  config.rope = read_rope(fields, shape.head_dimension, shape.context_trained, true);
  config.embedding_scale = fields.number_or({"embedding_scale", "embedding_multiplier"}, 1.0f, 1e-6f, 1e6f);
  config.residual_scale = fields.number_or({"residual_scale", "residual_multiplier"}, 1.0f, 1e-6f, 1e6f);
  config.logit_scale = fields.number_or({"logit_scale", "logits_scaling"}, 1.0f, 1e-6f, 1e6f);
  constexpr FieldName kExperts{"expert_count", "num_local_experts"}, kActivation{nullptr, "hidden_act"};
  if (const int64_t experts = fields.size_or(kExperts, 0, 0, int64_t{1} << 20); experts > 0)
    fields.refuse(kExperts, fmt::format("is {}: mixture-of-experts models are not supported", experts));
  if (const std::string activation = fields.text_or(kActivation, "silu"); activation != "silu")
    fields.refuse(kActivation, fmt::format("is '{}', expected silu", activation));
  const char* const name = fields.is_hugging_face() ? "model.embed_tokens.weight" : "token_embd.weight";
  const CheckpointTensor& table = checkpoint.require_tensor(name);
  if (table.shape.size() != 2) throw bad_input("{}: tensor '{}' is not a matrix", checkpoint.path(), name);
  shape.vocabulary = table.shape[0];
  return config;
}

}  // namespace gabbro::llm
