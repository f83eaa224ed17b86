#include "src/models/encoder/encoder_config.h"

#include <fmt/format.h>

#include "src/base/error.h"

namespace gabbro::encoder {
namespace {

constexpr FieldName kLayers{"block_count", "num_hidden_layers|n_layers|n_layer|num_layers"};
constexpr FieldName kEmbedding{"embedding_length", "hidden_size|dim|n_embd|d_model"};
constexpr FieldName kHeads{"attention.head_count", "num_attention_heads|n_heads|n_head|num_heads"};
constexpr FieldName kHeadDimension{"attention.key_length", "head_dim|d_kv"};
constexpr FieldName kFeedForward{"feed_forward_length", "intermediate_size|hidden_dim|n_inner|d_ff"};
constexpr FieldName kContext{"context_length", "max_position_embeddings|n_positions"};

}  // namespace

EncoderConfig read_encoder_config(const ConfigReader& fields, std::span<const WeightName> names,
                                  Activation activation) {
  EncoderConfig config;
  ModelShape& shape = config.shape;
  shape.layers = fields.size(kLayers, 1 << 12);
  shape.embedding = fields.size(kEmbedding, 1 << 20);
  shape.heads = shape.kv_heads = fields.size(kHeads, 1 << 14);
  if (!fields.has(kHeadDimension) && shape.embedding % shape.heads != 0) {
    fields.refuse(kHeads,
                  fmt::format("is {}, which does not divide the embedding length {}", shape.heads, shape.embedding));
  }
  shape.head_dimension = fields.size_or(kHeadDimension, shape.embedding / shape.heads, 1, 1 << 12);
  shape.feed_forward = fields.size(kFeedForward, 1 << 22);
  shape.context_trained = fields.size_or(kContext, 512, 1, 1 << 24);
  shape.vocabulary = read_rows(fields, names, "token_embd.weight");
  if (shape.vocabulary == 0) {
    throw bad_input("{}: tensor '{}' is missing", fields.checkpoint().path(),
                    llm::weight_name(names, fields.checkpoint(), "token_embd.weight"));
  }
  constexpr FieldName kEpsilon{"attention.layer_norm_epsilon", "layer_norm_eps|layer_norm_epsilon|norm_eps"};
  config.norm_epsilon = fields.number_or(kEpsilon, 1e-12f, 0.0f, 1.0f);
  config.attention_scale = llm::default_attention_scale(shape);
  config.layers.resize(static_cast<size_t>(shape.layers));
  // Nomic's and T5's other names of activations are read by their families.
  constexpr FieldName kActivation{nullptr, "hidden_act|hidden_activation|activation"};
  config.usual_activation = activation;
  config.activation = fields.has(kActivation) ? llm::read_activation(fields, activation) : activation;
  return config;
}

void require_pairs(const ConfigReader& fields, const EncoderConfig& config) {
  if (config.shape.head_dimension % 2 != 0)
    fields.refuse(kHeads,
                  fmt::format("gives heads of {} elements, which cannot be rotated", config.shape.head_dimension));
}

int64_t read_rows(const ConfigReader& fields, std::span<const WeightName> names, const char* name) {
  const Checkpoint& checkpoint = fields.checkpoint();
  if (!llm::has_weight(names, checkpoint, name)) return 0;
  const CheckpointTensor& matrix = checkpoint.require_tensor(llm::weight_name(names, checkpoint, name));
  if (matrix.shape.size() != 2) throw bad_input("{}: tensor '{}' is not a matrix", checkpoint.path(), matrix.name);
  return matrix.shape[0];
}

std::string architecture_class(const ConfigReader& fields) {
  const std::vector<std::string> classes = fields.texts({nullptr, "architectures"});
  return classes.empty() ? "" : classes.front();
}

}  // namespace gabbro::encoder
