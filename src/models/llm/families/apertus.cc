// Apertus: norms of queries and keys, and feed-forward blocks with xIELU and no gate.
#include <fmt/format.h>

#include <cmath>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::apertus {
namespace {

constexpr std::string_view kArchitectures[] = {"apertus"};

constexpr WeightName kOwn[] = {
    {"blk.{}.attn_norm", "model.layers.{}.attention_layernorm"},
    {"blk.{}.ffn_norm", "model.layers.{}.feedforward_layernorm"},
};
constexpr auto kNames = with_names(kOwn, kDecoderNames);

constexpr float kMost = 1e4f;

// The only value of a tensor; `other` where it is not there.
float read_number(const Checkpoint& checkpoint, const std::string& name, float other) {
  const CheckpointTensor* const tensor = checkpoint.tensor(name);
  if (tensor == nullptr) return other;
  if (tensor->elements() != 1 || is_quantized(tensor->dtype()))
    throw bad_input("{}: tensor {} is not one number", checkpoint.path(), quote(name));
  tensor->prepare();
  const float value = float_values(*tensor, 1, {}).front();
  if (!(std::abs(value) < kMost))
    throw bad_input("{}: tensor {} is {}, expected -1e4 to 1e4", checkpoint.path(), quote(name), value);
  return value;
}

// A field of GGUF without the architecture's name, with a number for each layer.
void read_array(const Checkpoint& checkpoint, const char* name, std::vector<Xielu>& layers, float Xielu::*field) {
  if (!checkpoint.metadata().has(name) && field != &Xielu::positive && field != &Xielu::negative) return;
  const std::vector<float> values = checkpoint.metadata().f32s(name);
  if (values.size() != layers.size())
    throw bad_input("{}: field '{}' has {} numbers, the model {} layers", checkpoint.path(), name, values.size(),
                    layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!(std::abs(values[i]) < kMost))
      throw bad_input("{}: field '{}' has {}, expected -1e4 to 1e4", checkpoint.path(), name, values[i]);
    layers[i].*field = values[i];
  }
}

float softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }

// As files have them: `positive` and `negative` are before softplus, and `negative` without beta.
std::vector<Xielu> read_parameters(const ConfigReader& fields, int64_t layers) {
  std::vector<Xielu> all(static_cast<size_t>(layers));
  if (fields.is_hugging_face()) {
    const Checkpoint& checkpoint = fields.checkpoint();
    for (size_t i = 0; i < all.size(); ++i) {
      const std::string prefix = fmt::format("model.layers.{}.mlp.act_fn.", i);
      Xielu& x = all[i];
      x.beta = read_number(checkpoint, prefix + "beta", x.beta);
      x.epsilon = read_number(checkpoint, prefix + "eps", x.epsilon);
      checkpoint.require_tensor(prefix + "alpha_p");
      checkpoint.require_tensor(prefix + "alpha_n");
      x.positive = read_number(checkpoint, prefix + "alpha_p", 0);
      x.negative = read_number(checkpoint, prefix + "alpha_n", 0);
    }
    return all;
  }
  read_array(fields.checkpoint(), "xielu.alpha_p", all, &Xielu::positive);
  read_array(fields.checkpoint(), "xielu.alpha_n", all, &Xielu::negative);
  read_array(fields.checkpoint(), "xielu.beta", all, &Xielu::beta);
  read_array(fields.checkpoint(), "xielu.eps", all, &Xielu::epsilon);
  return all;
}

std::vector<Xielu> read_xielu(const ConfigReader& fields, int64_t layers) {
  std::vector<Xielu> all = read_parameters(fields, layers);
  for (Xielu& x : all) {
    x.positive = softplus(x.positive);
    x.negative = x.beta + softplus(x.negative);
  }
  return all;
}

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kNames);
  config.qk_norm = QkNorm::kHead;
  config.gated = false;
  config.activation = read_activation(fields, Activation::kXielu);
  if (config.activation == Activation::kXielu) config.xielu = read_xielu(fields, config.shape.layers);
  return config;
}

void write_fields(const Checkpoint& checkpoint, GgufFields& fields) {
  const DecoderConfig config = read_config(checkpoint);
  write_decoder_fields(config, fields);
  if (config.activation != Activation::kXielu) return;
  const std::vector<Xielu> parameters = read_parameters(ConfigReader(checkpoint), config.shape.layers);
  const auto write = [&](const char* name, float Xielu::*field) {
    std::vector<float> values;
    for (const Xielu& layer : parameters) values.push_back(layer.*field);
    fields.writer.add_f32s(std::string("xielu.") + name, values);
  };
  write("alpha_p", &Xielu::positive);
  write("alpha_n", &Xielu::negative);
  write("beta", &Xielu::beta);
  write("eps", &Xielu::epsilon);
}

}  // namespace

extern const Family kApertus;
const Family kApertus = {
    .architectures = kArchitectures,
    .names = kNames,
    .read_shape = decoder_family<read_config>(kArchitectures, kNames).read_shape,
    .build = decoder_family<read_config>(kArchitectures, kNames).build,
    .write_fields = write_fields,
};

}  // namespace gabbro::llm::apertus
