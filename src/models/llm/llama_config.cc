#include "src/models/llm/llama_config.h"

#include <cmath>

#include "src/base/error.h"

namespace gabbro::llm {
namespace {

// Reads the fields "<architecture>.<name>" with bounds.
class Fields {
 public:
  explicit Fields(const gguf::File& file)
      : file_(file), prefix_(std::string(file.require_string("general.architecture")) + ".") {}

  std::string key(const char* name) const { return prefix_ + name; }
  bool has(const char* name) const { return file_.find(key(name)) != nullptr; }

  int64_t size(const char* name, int64_t most) const { return bounded(name, integer(name), 1, most); }
  int64_t size_or(const char* name, int64_t other, int64_t least, int64_t most) const {
    return has(name) ? bounded(name, integer(name), least, most) : other;
  }
  float number_or(const char* name, float other, float least, float most) const {
    const float value = file_.f32_or(key(name), other);
    if (!(value >= least && value <= most))
      throw bad_input("{}: field '{}' is {}, expected {} to {}", file_.path(), key(name), value, least, most);
    return value;
  }
  std::string text_or(const char* name, const char* other) const {
    return std::string(file_.string_or(key(name), other));
  }
  [[noreturn]] void refuse(const char* name, const std::string& why) const {
    throw bad_input("{}: field '{}' {}", file_.path(), key(name), why);
  }

 private:
  // A number, or an array of one equal number for each layer, as some converters write it.
  int64_t integer(const char* name) const {
    const gguf::Value* value = file_.find(key(name));
    if (value == nullptr || !value->is_array()) return file_.require_u32(key(name));
    const std::vector<uint32_t> values = file_.u32_per_layer(key(name), file_.require_u32(key("block_count")));
    for (const uint32_t other : values) {
      if (other != values.front())
        refuse(name, fmt::format("differs between layers ({} and {}), which is not supported", values.front(), other));
    }
    if (values.empty()) refuse(name, "is an empty array");
    return values.front();
  }
  int64_t bounded(const char* name, int64_t value, int64_t least, int64_t most) const {
    if (value < least || value > most)
      throw bad_input("{}: field '{}' is {}, expected {} to {}", file_.path(), key(name), value, least, most);
    return value;
  }

  const gguf::File& file_;
  std::string prefix_;
};

nn::RopeConfig read_rope(const Fields& fields, const ModelShape& shape) {
  nn::RopeConfig rope;
  rope.dimensions = fields.size_or("rope.dimension_count", shape.head_dimension, 2, shape.head_dimension);
  if (rope.dimensions % 2 != 0)
    fields.refuse("rope.dimension_count", fmt::format("is {}, expected an even number", rope.dimensions));
  rope.base = fields.number_or("rope.freq_base", 10000.0f, 1.0f, 1e12f);
  const std::string scaling = fields.text_or("rope.scaling.type", "linear");  // llama.cpp's too
  if (scaling == "none") {
    rope.scaling = nn::RopeScaling::kNone;
  } else if (scaling == "linear") {
    rope.scaling = nn::RopeScaling::kLinear;
  } else if (scaling == "yarn") {
    rope.scaling = nn::RopeScaling::kYarn;
  } else if (scaling == "longrope") {
    rope.scaling = nn::RopeScaling::kLongRope;
  } else {
    fields.refuse("rope.scaling.type", fmt::format("is '{}', expected none, linear, yarn or longrope", scaling));
  }
  const bool has_factor = fields.has("rope.scaling.factor");  // otherwise the name that early files used
  rope.factor = fields.number_or(has_factor ? "rope.scaling.factor" : "rope.scale_linear", 1.0f, 1e-3f, 1e6f);
  rope.original_context =
      fields.size_or("rope.scaling.original_context_length", shape.context_trained, 1, int64_t{1} << 32);
  rope.attention_factor = fields.number_or("rope.scaling.attn_factor", 1.0f, 1e-3f, 1e3f);
  rope.extrapolation = fields.number_or("rope.scaling.yarn_ext_factor", 1.0f, 0.0f, 1.0f);
  rope.beta_fast = fields.number_or("rope.scaling.yarn_beta_fast", 32.0f, 0.01f, 1e4f);
  rope.beta_slow = fields.number_or("rope.scaling.yarn_beta_slow", 1.0f, 0.01f, 1e4f);
  return rope;
}

}  // namespace

LlamaConfig read_llama_config(const gguf::File& file) {
  const Fields fields(file);
  LlamaConfig config;
  ModelShape& shape = config.shape;
  shape.layers = fields.size("block_count", 4096);
  shape.embedding = fields.size("embedding_length", 1 << 20);
  shape.heads = fields.size("attention.head_count", 1 << 14);
  shape.kv_heads = fields.size_or("attention.head_count_kv", shape.heads, 1, shape.heads);
  if (shape.heads % shape.kv_heads != 0) {
    fields.refuse("attention.head_count_kv",
                  fmt::format("is {}, which does not divide the {} heads", shape.kv_heads, shape.heads));
  }
  if (!fields.has("attention.key_length") && shape.embedding % shape.heads != 0) {
    fields.refuse("attention.head_count",
                  fmt::format("is {}, which does not divide the embedding length {}", shape.heads, shape.embedding));
  }
  shape.head_dimension = fields.size_or("attention.key_length", shape.embedding / shape.heads, 2, 1 << 12);
  if (fields.size_or("attention.value_length", shape.head_dimension, 1, 1 << 12) != shape.head_dimension) {
    fields.refuse("attention.value_length", "differs from the key length, which is not supported");
  }
  shape.context_trained = fields.size("context_length", int64_t{1} << 32);
  shape.feed_forward = fields.size("feed_forward_length", 1 << 22);
  config.norm_epsilon = fields.number_or("attention.layer_norm_rms_epsilon", 1e-5f, 0.0f, 1.0f);
  config.attention_scale = fields.number_or("attention.scale", 0.0f, 0.0f, 1e3f);
  if (config.attention_scale == 0) config.attention_scale = 1 / std::sqrt(static_cast<float>(shape.head_dimension));
  config.window = fields.size_or("attention.sliding_window", 0, 0, int64_t{1} << 32);
  config.rope = read_rope(fields, shape);
  config.embedding_scale = fields.number_or("embedding_scale", 1.0f, 1e-6f, 1e6f);
  config.residual_scale = fields.number_or("residual_scale", 1.0f, 1e-6f, 1e6f);
  config.logit_scale = fields.number_or("logit_scale", 1.0f, 1e-6f, 1e6f);
  if (const int64_t experts = fields.size_or("expert_count", 0, 0, int64_t{1} << 20); experts > 0) {
    fields.refuse("expert_count", fmt::format("is {}: mixture-of-experts models are not supported", experts));
  }
  const gguf::TensorInfo& table = file.require_tensor("token_embd.weight");
  if (table.shape.size() != 2) throw bad_input("{}: tensor 'token_embd.weight' is not a matrix", file.path());
  shape.vocabulary = table.shape[0];
  return config;
}

}  // namespace gabbro::llm
