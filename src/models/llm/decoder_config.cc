#include "src/models/llm/decoder_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/base/error.h"

namespace gabbro::llm {
namespace {

constexpr FieldName kLayers{"block_count", "num_hidden_layers|n_layer|num_layers|n_layers"};
constexpr FieldName kEmbedding{"embedding_length", "hidden_size|n_embd|d_model"};
constexpr FieldName kHeads{"attention.head_count", "num_attention_heads|n_head|num_heads|n_heads"};
constexpr FieldName kKvHeads{"attention.head_count_kv", "num_key_value_heads|num_kv_heads"};
constexpr FieldName kHeadDimension{"attention.key_length", "head_dim"};
constexpr FieldName kContext{"context_length", "max_position_embeddings|n_positions|max_seq_len|seq_length"};
constexpr FieldName kFeedForward{"feed_forward_length", "intermediate_size|n_inner|ffn_hidden_size|ffn_dim"};
constexpr FieldName kWindow{"attention.sliding_window", "sliding_window"};
constexpr int64_t kLongestContext = int64_t{1} << 32;

void read_sizes(const ConfigReader& fields, std::span<const WeightName> names, ValueLength values, ModelShape& shape) {
  constexpr FieldName kBlockTypes{nullptr, "layers_block_type"};  // Nemotron H, which says the number by it alone
  const int64_t blocks = fields.has(kLayers) ? 0 : std::ssize(fields.texts(kBlockTypes));
  shape.layers = blocks > 0 && blocks <= 4096 ? blocks : fields.size(kLayers, 4096);
  shape.embedding = fields.size(kEmbedding, 1 << 20);
  shape.heads = fields.size(kHeads, 1 << 14);
  shape.kv_heads = fields.size_or(kKvHeads, shape.heads, 1, shape.heads);
  if (shape.heads % shape.kv_heads != 0)
    fields.refuse(kKvHeads, fmt::format("is {}, which does not divide the {} heads", shape.kv_heads, shape.heads));
  if (!fields.has(kHeadDimension) && shape.embedding % shape.heads != 0) {
    fields.refuse(kHeads,
                  fmt::format("is {}, which does not divide the embedding length {}", shape.heads, shape.embedding));
  }
  shape.head_dimension = fields.size_or(kHeadDimension, shape.embedding / shape.heads, 2, 1 << 12);
  constexpr FieldName kValueLength{"attention.value_length", nullptr};
  if (values == ValueLength::kSame &&
      fields.size_or(kValueLength, shape.head_dimension, 1, 1 << 12) != shape.head_dimension)
    fields.refuse(kValueLength, "differs from the key length, which is not supported");
  // Files of models with linear biases may not say it; their configuration classes have this one then.
  constexpr int64_t kUsualContext = 2048;
  const bool unsaid = fields.is_hugging_face() && !fields.has(kContext);
  shape.context_trained = unsaid ? kUsualContext : fields.size(kContext, kLongestContext);
  shape.feed_forward =
      fields.has(kFeedForward) || !fields.is_hugging_face() ? fields.size(kFeedForward, 1 << 22) : 4 * shape.embedding;
  shape.vocabulary = read_vocabulary(fields, names);
}

}  // namespace

int64_t read_vocabulary(const ConfigReader& fields, std::span<const WeightName> names) {
  const Checkpoint& checkpoint = fields.checkpoint();
  const std::string name = weight_name(names, checkpoint, "token_embd.weight");
  const CheckpointTensor& table = checkpoint.require_tensor(name);
  if (table.shape.size() != 2) throw bad_input("{}: tensor '{}' is not a matrix", checkpoint.path(), name);
  return table.shape[0];
}

float read_norm_epsilon(const ConfigReader& fields) {
  const float epsilon = fields.is_hugging_face() ? 1e-6f : 1e-5f;  // defaults of transformers and of llama.cpp
  constexpr FieldName kRmsEpsilon{"attention.layer_norm_rms_epsilon", "rms_norm_eps"};
  constexpr FieldName kLayerEpsilon{"attention.layer_norm_epsilon",
                                    "layer_norm_eps|layer_norm_epsilon|norm_epsilon|norm_eps"};
  return fields.number_or(fields.has(kLayerEpsilon) ? kLayerEpsilon : kRmsEpsilon, epsilon, 0.0f, 1.0f);
}

DecoderConfig read_decoder_config(const ConfigReader& fields, std::span<const WeightName> names) {
  if (const int64_t experts = fields.size_or(kExpertCount, 0, 0, int64_t{1} << 20); experts > 0) {
    fields.refuse(kExpertCount,
                  fmt::format("is {}: mixtures of experts of this architecture are not supported", experts));
  }
  return read_mixed_config(fields, names);
}

DecoderConfig read_mixed_config(const ConfigReader& fields, std::span<const WeightName> names, ValueLength values) {
  DecoderConfig config;
  ModelShape& shape = config.shape;
  read_sizes(fields, names, values, shape);
  config.norm_epsilon = read_norm_epsilon(fields);
  const float scale = fields.number_or({"attention.scale", nullptr}, 0.0f, 0.0f, 1e3f);
  config.attention_scale = scale != 0 ? scale : default_attention_scale(shape);
  config.layers = read_layers(fields, shape.layers, 0);
  config.rope = read_rope(fields, {.head_dimension = shape.head_dimension, .context_trained = shape.context_trained});
  return config;
}

std::vector<bool> read_layers_with_heads(const ConfigReader& fields, int64_t layers) {
  const std::vector<int64_t> heads = fields.list_or_empty({"attention.head_count_kv", nullptr});
  std::vector<bool> attends(static_cast<size_t>(layers), true);
  if (std::ssize(heads) != layers) return attends;
  for (size_t i = 0; i < attends.size(); ++i) attends[i] = heads[i] != 0;
  return attends;
}

float default_attention_scale(const ModelShape& shape) {
  return 1 / std::sqrt(static_cast<float>(shape.head_dimension));
}

std::vector<LayerKind> read_layers(const ConfigReader& fields, int64_t layers, int64_t pattern) {
  constexpr FieldName kTypes{nullptr, "layer_types"}, kInUse{nullptr, "use_sliding_window"};
  constexpr FieldName kPattern{"attention.sliding_window_pattern", "sliding_window_pattern|_sliding_window_pattern"};
  int64_t window = fields.size_or(kWindow, 0, 0, kLongestContext);
  if (!fields.flag_or(kInUse, true)) window = 0;
  std::vector<LayerKind> kinds(static_cast<size_t>(layers));
  if (const std::vector<std::string> types = fields.texts(kTypes); !types.empty()) {
    if (std::ssize(types) != layers)
      fields.refuse(kTypes, fmt::format("has {} layers, the model has {}", types.size(), layers));
    for (size_t i = 0; i < types.size(); ++i) {
      // Those of other mixers and of chunks are the family's affair.
      constexpr std::string_view kTypesOfFamilies[] = {"conv", "chunked_attention", "linear_attention", "mamba",
                                                       "attention"};
      const bool of_family = std::ranges::find(kTypesOfFamilies, types[i]) != std::end(kTypesOfFamilies);
      if (types[i] != "sliding_attention" && types[i] != "full_attention" && !of_family)
        fields.refuse(kTypes, fmt::format("has '{}', expected sliding_attention or full_attention", types[i]));
      if (types[i] == "sliding_attention") kinds[i].window = window;
    }
    return kinds;
  }
  std::vector<int64_t> sliding = fields.sizes(kPattern);  // of GGUF: one number, or a flag for each layer
  if (sliding.size() == 1) {
    pattern = sliding.front();
    sliding.clear();
  }
  if (!sliding.empty() && std::ssize(sliding) != layers)
    fields.refuse(kPattern, fmt::format("has {} layers, the model has {}", sliding.size(), layers));
  for (size_t i = 0; i < kinds.size(); ++i) {
    const bool full = sliding.empty() ? pattern > 0 && (static_cast<int64_t>(i) + 1) % pattern == 0 : sliding[i] == 0;
    kinds[i].window = full ? 0 : window;
  }
  return kinds;
}

Tensor activated(Activation activation, const Tensor& x) {
  switch (activation) {
    case Activation::kSilu:
      return silu(x);
    case Activation::kGelu:
      return gelu(x);
    case Activation::kGeluTanh:
      return gelu(x, true);
    case Activation::kQuickGelu:  // Hendrycks & Gimpel 2016, section 2: x · sigmoid(1.702 · x)
      return x * sigmoid((x * scalar(x.device(), 1.702)));
    case Activation::kRelu:
      return relu(x);
    case Activation::kReluSquared:
      return square(relu(x));
    case Activation::kTanh:
      return tanh(x);
    case Activation::kClampedSwish:  // of a gate and a factor together: Mixture
    case Activation::kXielu:         // with numbers of the layer: FeedForward
      break;
  }
  throw std::logic_error("unknown activation");
}

Activation read_activation(const ConfigReader& fields, Activation other) {
  constexpr FieldName kActivation{nullptr, "hidden_activation|hidden_act|activation_function|activation"};
  if (!fields.has(kActivation)) return other;
  const std::string name = fields.text_or(kActivation, "");
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "gelu") return Activation::kGelu;
  if (name == "quick_gelu") return Activation::kQuickGelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return Activation::kGeluTanh;
  if (name == "relu") return Activation::kRelu;
  if (name == "relu2") return Activation::kReluSquared;
  if (name == "xielu" && other == Activation::kXielu) return other;
  fields.refuse(kActivation, fmt::format("is '{}', expected silu, gelu, gelu_new, quick_gelu, relu or relu2", name));
}

TransformersLayout rows_by_group(const ModelShape& shape) {
  const int64_t d = shape.head_dimension, groups = shape.kv_heads, queries = shape.heads / groups;
  return {.row = [=](int64_t row) {
    const int64_t head = row / d, within = row % d;
    const int64_t keys = groups * queries, values = keys + groups;  // the first head of each
    const int64_t group = head < keys ? head / queries : (head - (head < values ? keys : values));
    const int64_t of_group = head < keys ? head % queries : queries + (head < values ? 0 : 1);
    return (group * (queries + 2) + of_group) * d + within;
  }};
}

}  // namespace gabbro::llm
