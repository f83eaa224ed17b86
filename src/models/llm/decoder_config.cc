#include "src/models/llm/decoder_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/base/error.h"
#include "src/models/config/config_class.h"

namespace gabbro::llm {
namespace {

constexpr FieldName kLayers{"block_count", "num_hidden_layers|n_layer|num_layers|n_layers"};
constexpr FieldName kEmbedding{"embedding_length", "n_embed|hidden_size|n_embd|d_model"};
constexpr FieldName kHeads{"attention.head_count", "num_attention_heads|n_head|num_heads|n_heads"};
constexpr FieldName kKvHeads{"attention.head_count_kv", "num_key_value_heads|num_kv_heads"};
constexpr FieldName kHeadDimension{"attention.key_length", "head_dim"};
constexpr FieldName kContext{"context_length", "max_position_embeddings|n_positions|max_seq_len|seq_length"};
constexpr FieldName kFeedForward{"feed_forward_length", "intermediate_size|n_inner|ffn_hidden_size|ffn_dim"};
constexpr FieldName kWindow{"attention.sliding_window", "sliding_window"};
constexpr int64_t kLongestContext = int64_t{1} << 32, kMostTokens = int64_t{1} << 31;

// Nemotron H says it by the kinds of its layers, and has four where it does not name them.
int64_t read_layer_count(const ConfigReader& fields) {
  constexpr FieldName kKinds{nullptr, "layers_block_type"}, kLetters{nullptr, "hybrid_override_pattern"};
  constexpr int64_t kMost = 4096;
  if (fields.has(kLayers) || fields.config_class() == nullptr) return fields.size(kLayers, kMost);
  const int64_t kinds = std::ssize(fields.texts(kKinds)), letters = std::ssize(fields.text_or(kLetters, ""));
  const int64_t layers = kinds > 0 ? kinds : letters > 0 ? letters : 4;
  if (layers > kMost) fields.refuse(kinds > 0 ? kKinds : kLetters, fmt::format("has {} layers", layers));
  return layers;
}

void read_sizes(const ConfigReader& fields, std::span<const WeightName> names, ValueLength values, ModelShape& shape) {
  shape.layers = read_layer_count(fields);
  shape.embedding = fields.size(kEmbedding, 1 << 20);
  shape.heads = fields.size(kHeads, 1 << 14);
  shape.kv_heads = fields.size_or(kKvHeads, shape.heads, 1, shape.heads);
  if (values == ValueLength::kSame && shape.heads % shape.kv_heads != 0)
    fields.refuse(kKvHeads, fmt::format("is {}, which does not divide the {} heads", shape.kv_heads, shape.heads));
  const ClassConfig* const of = fields.config_class();
  const bool whole = of != nullptr ? of->has_whole_heads() : !fields.has(kHeadDimension);
  if (whole && shape.embedding % shape.heads != 0) {
    fields.refuse(kHeads,
                  fmt::format("is {}, which does not divide the embedding length {}", shape.heads, shape.embedding));
  }
  const int64_t width = shape.embedding / shape.heads;
  const bool of_rotations = of != nullptr && of->has_rotary_head_dim();
  shape.head_dimension = of_rotations ? width : fields.size_or(kHeadDimension, width, 2, 1 << 12);
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

// "every `pattern`-th layer sees everything"; 0: none does. GGUF has one number, or a flag for each layer.
std::vector<bool> read_full_layers(const ConfigReader& fields, int64_t layers, int64_t pattern) {
  constexpr FieldName kPattern{"attention.sliding_window_pattern", "sliding_window_pattern"};
  if (fields.is_null(kPattern)) fields.refuse(kPattern, "is null");
  std::vector<int64_t> sliding = fields.sizes(kPattern);
  if (sliding.size() == 1) {
    pattern = sliding.front();
    sliding.clear();
    if (pattern == 0 && fields.is_hugging_face()) fields.refuse(kPattern, "is 0");
  }
  if (!sliding.empty() && std::ssize(sliding) != layers)
    fields.refuse(kPattern, fmt::format("has {} layers, the model has {}", sliding.size(), layers));
  std::vector<bool> full;
  for (int64_t i = 0; i < layers; ++i)
    full.push_back(sliding.empty() ? pattern > 0 && (i + 1) % pattern == 0 : sliding[static_cast<size_t>(i)] == 0);
  return full;
}

// Windows by layer_types of config.json; windows of other mixers and of chunks are the family's affair.
std::vector<LayerKind> kinds_of_types(const ConfigReader& fields, FieldName field,
                                      const std::vector<std::string>& types, int64_t window) {
  constexpr std::string_view kTypesOfFamilies[] = {
      "conv", "chunked_attention", "linear_attention", "mamba", "attention", "mlp", "moe"};
  std::vector<LayerKind> kinds(types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    const bool of_family = std::ranges::find(kTypesOfFamilies, types[i]) != std::end(kTypesOfFamilies);
    if (types[i] != "sliding_attention" && types[i] != "full_attention" && !of_family)
      fields.refuse(field, fmt::format("has '{}', expected sliding_attention or full_attention", types[i]));
    if (types[i] != "sliding_attention") continue;
    if (window == 0) fields.refuse(field, "has sliding_attention, and the model has no sliding_window");
    kinds[i].window = window;
  }
  return kinds;
}

}  // namespace

// A class of several models has its own word of it, and there the files decide.
bool read_may_be_tied(const ConfigReader& fields) {
  if (fields.config_class() == nullptr || fields.config_class()->is_nested()) return true;
  return fields.flag_or({nullptr, "tie_embedding|tie_word_embeddings"}, true);
}

int64_t read_vocabulary(const ConfigReader& fields, std::span<const WeightName> names) {
  constexpr FieldName kVocabulary{nullptr, "vocab_size"};
  const Checkpoint& checkpoint = fields.checkpoint();
  const std::string name = weight_name(names, checkpoint, "token_embd.weight");
  const CheckpointTensor& table = checkpoint.require_tensor(name);
  if (table.shape.size() != 2) throw bad_input("{}: tensor '{}' is not a matrix", checkpoint.path(), name);
  if (fields.config_class() != nullptr && fields.size_or(kVocabulary, table.shape[0], 1, kMostTokens) != table.shape[0])
    fields.refuse(kVocabulary, fmt::format("is {}, tensor '{}' has {} rows",
                                           fields.size_or(kVocabulary, 0, 0, kMostTokens), name, table.shape[0]));
  constexpr FieldName kPadding{nullptr, "pad_token_id"};  // whose embedding transformers keeps at 0
  if (fields.config_class() != nullptr && fields.index_or(kPadding, 0) >= table.shape[0])
    fields.refuse(kPadding, fmt::format("is {}, the vocabulary has {}", fields.index_or(kPadding, 0), table.shape[0]));
  return table.shape[0];
}

float read_norm_epsilon(const ConfigReader& fields) {
  const float epsilon = fields.is_hugging_face() ? 1e-6f : 1e-5f;  // defaults of transformers and of llama.cpp
  constexpr FieldName kRmsEpsilon{"attention.layer_norm_rms_epsilon", "rms_norm_eps"};
  constexpr FieldName kLayerEpsilon{"attention.layer_norm_epsilon",
                                    "layer_norm_eps|layer_norm_epsilon|norm_epsilon|norm_eps"};
  if (fields.is_null(kLayerEpsilon)) fields.refuse(kLayerEpsilon, "is null");
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
  config.layers = read_layers(fields, shape.layers, {});
  config.may_be_tied = read_may_be_tied(fields);
  const bool rotates_others = fields.config_class() != nullptr && fields.config_class()->has_rotary_head_dim();
  const int64_t rotated =
      rotates_others ? fields.size_or(kHeadDimension, shape.head_dimension, 2, 1 << 12) : shape.head_dimension;
  config.rope = read_rope(fields, {.head_dimension = rotated, .context_trained = shape.context_trained});
  if (values == ValueLength::kSame && config.rope.dimensions > shape.head_dimension)
    fields.refuse(kHeadDimension, fmt::format("is {}, more than heads have", rotated));
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

std::vector<LayerKind> read_layers(const ConfigReader& fields, int64_t layers, WindowRule rule) {
  constexpr FieldName kTypes{nullptr, "layer_types"}, kInUse{nullptr, "use_sliding_window"};
  const int64_t least = fields.config_class() != nullptr ? 1 : 0;  // no window is null there
  const bool in_use = fields.flag_or(kInUse, true);
  const int64_t window = in_use ? fields.size_or(kWindow, 0, least, kLongestContext) : 0;
  if (const std::vector<std::string> types = fields.texts(kTypes); !types.empty()) {
    if (std::ssize(types) != layers)
      fields.refuse(kTypes, fmt::format("has {} layers, the model has {}", types.size(), layers));
    return kinds_of_types(fields, kTypes, types, window);
  }
  const std::vector<bool> full = read_full_layers(fields, layers, rule.pattern);
  if (rule.pattern > 0 && in_use && fields.is_null(kWindow)) fields.refuse(kWindow, "is null, and layers have windows");
  std::vector<LayerKind> kinds(static_cast<size_t>(layers));
  const bool limited = fields.is_hugging_face();
  for (size_t i = 0; i < kinds.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    const bool outside = limited && (index < rule.first || index >= rule.end);
    kinds[i].window = full[i] || outside ? 0 : window;
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

const char* activation_name(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return "silu";
    case Activation::kGelu:
      return "gelu";
    case Activation::kGeluTanh:
      return "gelu_pytorch_tanh";
    case Activation::kQuickGelu:
      return "quick_gelu";
    case Activation::kRelu:
      return "relu";
    case Activation::kReluSquared:
      return "relu2";
    case Activation::kTanh:
      return "tanh";
    case Activation::kClampedSwish:
    case Activation::kXielu:
      break;
  }
  return nullptr;
}

Activation read_activation(const ConfigReader& fields, Activation other) {
  constexpr FieldName kActivation{"hidden_activation", "hidden_activation|hidden_act|activation_function|activation"};
  if (fields.is_null(kActivation)) fields.refuse(kActivation, "is null");
  if (!fields.has(kActivation)) return other;
  const std::string name = fields.text_or(kActivation, "");
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "gelu" || name == "gelu_python") return Activation::kGelu;
  if (name == "tanh") return Activation::kTanh;
  if (name == "quick_gelu") return Activation::kQuickGelu;
  constexpr std::string_view kByTanh[] = {"gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_accurate",
                                          "gelu_python_tanh"};
  if (std::ranges::find(kByTanh, name) != std::end(kByTanh)) return Activation::kGeluTanh;
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
