#include "src/models/llm/families/gemma3n_config.h"

#include <cmath>

#include "src/base/error.h"
#include "src/models/llm/window_ropes.h"

namespace gabbro::llm::gemma3n {
namespace {

constexpr FieldName kStreams{"altup.num_inputs", "altup_num_inputs"};
constexpr FieldName kActive{"altup.active_idx", "altup_active_idx"};
constexpr FieldName kLayerWidth{"embedding_length_per_layer_input", "hidden_size_per_layer_input"};
constexpr FieldName kShared{"attention.shared_kv_layers", "num_kv_shared_layers"};
constexpr FieldName kCutoffs{"activation_sparsity_scale", "activation_sparsity_pattern"};

// The number that a normal variable is below with probability `p`, of 0 to 1 (1 excluded).
float normal_quantile(double p) {
  if (p <= 0) return kDense;
  double low = -10, high = 10;
  for (int i = 0; i < 80; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < p ? low : high) = middle;
  }
  return static_cast<float>(low);
}

std::vector<float> read_cutoffs(const ConfigReader& fields, int64_t layers) {
  if (!fields.has(kCutoffs)) {  // as transformers has it
    constexpr int64_t kSparseLayers = 10;
    std::vector<float> cutoffs(static_cast<size_t>(layers), kDense);
    if (layers > kSparseLayers) std::fill_n(cutoffs.begin(), kSparseLayers, normal_quantile(0.95));
    return cutoffs;
  }
  if (!fields.is_hugging_face()) return fields.numbers(kCutoffs, layers, kDense, 10);
  std::vector<float> cutoffs = fields.numbers(kCutoffs, layers, 0, 0.9999f);
  for (float& cutoff : cutoffs) cutoff = normal_quantile(cutoff);
  return cutoffs;
}

// The last `shared` layers have no keys and values: they use the keys and values of the last layer of their kind before
// them.
std::vector<size_t> read_sources(const ConfigReader& fields, const std::vector<LayerKind>& layers) {
  const auto count = std::ssize(layers);
  const auto own = static_cast<size_t>(count - fields.size_or(kShared, 15, 0, count - 1));
  std::vector<size_t> sources;
  for (size_t i = 0; i < layers.size(); ++i) {
    size_t source = i;
    while (source >= own || layers[source].window != layers[i].window) {
      if (source == 0) fields.refuse(kShared, fmt::format("leaves no keys for layer {}", i));
      --source;
    }
    sources.push_back(i < own ? i : source);
  }
  return sources;
}

// Rows of a matrix of the checkpoint.
int64_t read_rows(const Checkpoint& checkpoint, const std::string& name) {
  const CheckpointTensor& matrix = checkpoint.require_tensor(weight_name(kNames, checkpoint, name));
  if (matrix.shape.size() != 2) throw bad_input("{}: tensor '{}' is not a matrix", checkpoint.path(), name);
  return matrix.shape[0];
}

}  // namespace

Config read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  Config config{.decoder = read_decoder_config(fields, kNames)};
  DecoderConfig& decoder = config.decoder;
  const ModelShape& shape = decoder.shape;
  decoder.activation = read_activation(fields, Activation::kGeluTanh);
  decoder.embedding_scale = std::sqrt(static_cast<float>(shape.embedding));
  decoder.attention_scale = fields.number_or({"attention.scale", nullptr}, 1.0f, 1e-3f, 1e3f);
  decoder.logit_softcap = fields.number_or({"final_logit_softcapping", "final_logit_softcapping"}, 30.0f, 0.0f, 1e6f);
  decoder.layers = read_layers(fields, shape.layers, {.pattern = 5});
  read_window_ropes(fields, decoder, 10000.0f);
  config.streams = fields.size_or(kStreams, 4, 2, 64);
  config.active = fields.size_or(kActive, 0, 0, config.streams - 1);
  config.layer_width = fields.size_or(kLayerWidth, 256, 1, 1 << 16);
  config.layer_tokens = read_rows(checkpoint, "per_layer_token_embd.weight");
  config.laurel_rank = read_rows(checkpoint, "blk.0.laurel_l.weight");
  constexpr FieldName kCorrectScale{nullptr, "altup_correct_scale"};
  if (!fields.flag_or(kCorrectScale, true)) fields.refuse(kCorrectScale, "is false, which is not supported");
  config.cutoffs = read_cutoffs(fields, shape.layers);
  config.sources = read_sources(fields, decoder.layers);
  return config;
}

}  // namespace gabbro::llm::gemma3n
