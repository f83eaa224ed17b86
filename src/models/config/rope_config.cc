#include "src/models/config/rope_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <numbers>

namespace gabbro::llm {
namespace {

constexpr int64_t kMostContext = int64_t{1} << 32;

nn::RopeScaling parse_scaling(const ConfigReader& fields, FieldName name, const std::string& text) {
  if (text == "none") return nn::RopeScaling::kNone;
  if (text == "linear") return nn::RopeScaling::kLinear;
  if (text == "yarn") return nn::RopeScaling::kYarn;
  if (text == "longrope") return nn::RopeScaling::kLongRope;
  fields.refuse(name, fmt::format("is '{}', expected none, linear, yarn or longrope", text));
}

void read_gguf(const ConfigReader& fields, int64_t context_trained, nn::RopeConfig& rope) {
  const FieldName type{"rope.scaling.type", nullptr}, factor{"rope.scaling.factor", nullptr},
      dynamic{"rope.scaling.dynamic_factor", nullptr};
  rope.base = fields.number_or({"rope.freq_base", nullptr}, 10000.0f, 1.0f, 1e12f);
  rope.scaling = parse_scaling(fields, type, fields.text_or(type, "linear"));  // llama.cpp's default
  const FieldName early_factor{"rope.scale_linear", nullptr};
  rope.factor = fields.number_or(fields.has(factor) ? factor : early_factor, 1.0f, 1e-3f, 1e6f);
  rope.original_context =
      fields.size_or({"rope.scaling.original_context_length", nullptr}, context_trained, 1, kMostContext);
  rope.attention_factor = fields.number_or({"rope.scaling.attn_factor", nullptr}, 1.0f, 1e-3f, 1e3f);
  if (fields.has(dynamic)) {  // Gabbro's own field; other programs take the trained base for all lengths
    rope.scaling = nn::RopeScaling::kDynamic;
    rope.factor = fields.number_or(dynamic, 1.0f, 1.0f, 1e6f);
  }
  // llama.cpp: a magnitude of 1 over that of `mscale_all_dim` (llama_context's constructor).
  const float all = fields.number_or({"rope.scaling.yarn_log_multiplier", nullptr}, 0.0f, 0.0f, 100.0f);
  if (rope.scaling == nn::RopeScaling::kYarn && rope.factor > 1)
    rope.attention_factor /= 1 + 0.1 * all * std::log(rope.factor);
  rope.extrapolation = fields.number_or({"rope.scaling.yarn_ext_factor", nullptr}, 1.0f, 0.0f, 1.0f);
  rope.beta_fast = fields.number_or({"rope.scaling.yarn_beta_fast", nullptr}, 32.0f, 0.01f, 1e4f);
  rope.beta_slow = fields.number_or({"rope.scaling.yarn_beta_slow", nullptr}, 1.0f, 0.01f, 1e4f);
  rope.whole_pairs = fields.flag_or({"rope.scaling.yarn_truncate", nullptr}, rope.whole_pairs);
}

// The object is called rope_scaling, or rope_parameters since transformers 5, where the base is in it too.
struct HuggingFaceNames {
  HuggingFaceNames(const ConfigReader& fields, const std::string& section) : prefix("rope_parameters." + section) {
    const bool there = fields.has({nullptr, (*this)("rope_theta")}) || fields.has({nullptr, (*this)("rope_type")});
    if (!there) prefix = "rope_scaling.";
  }
  const char* operator()(const char* name) { return names.emplace_back(prefix + name).c_str(); }

  std::string prefix;
  std::list<std::string> names;
};

void read_hugging_face(const ConfigReader& fields, const RopeSource& source, ModelRope& rope) {
  const int64_t context_trained = source.context_trained;
  HuggingFaceNames names(fields, source.section);
  const auto own = [&](const char* name) { return FieldName{nullptr, names(name)}; };
  constexpr FieldName kBase{nullptr, "rope_theta|rotary_emb_base"};
  const FieldName base = fields.has(own("rope_theta")) ? own("rope_theta") : kBase;
  rope.base = fields.number_or(base, 10000.0f, 1.0f, 1e12f);
  const FieldName type = fields.has(own("rope_type")) ? own("rope_type") : own("type");
  const std::string kind = fields.text_or(type, "default");
  const auto number = [&](const char* name, float other) { return fields.number_or(own(name), other, 1e-3f, 1e6f); };
  rope.original_context =
      fields.size_or({nullptr, "original_max_position_embeddings"}, context_trained, 1, kMostContext);
  rope.original_context =
      fields.size_or(own("original_max_position_embeddings"), rope.original_context, 1, kMostContext);
  const double stretch = static_cast<double>(context_trained) / static_cast<double>(rope.original_context);
  const bool stretched_base = kind == "dynamic" && fields.has(own("alpha"));  // Hunyuan: for all lengths alike
  if (kind == "default" || stretched_base) {
    rope.scaling = nn::RopeScaling::kNone;
    const auto d = static_cast<double>(rope.dimensions);
    if (stretched_base && d > 2) rope.base *= std::pow(static_cast<double>(number("alpha", 1)), d / (d - 2));
  } else if (kind == "llama3") {
    rope.scaling = nn::RopeScaling::kNone;
    rope.divisors = llama3_divisors(rope.dimensions, rope.base, number("factor", 8), number("low_freq_factor", 1),
                                    number("high_freq_factor", 4), static_cast<double>(rope.original_context));
  } else if (kind == "linear" || kind == "yarn") {
    rope.scaling = kind == "linear" ? nn::RopeScaling::kLinear : nn::RopeScaling::kYarn;
    rope.factor = number("factor", kind == "yarn" ? static_cast<float>(stretch) : 1);
    rope.beta_fast = number("beta_fast", 32);
    rope.beta_slow = number("beta_slow", 1);
    rope.whole_pairs = fields.flag_or(own("truncate"), true);
    if (kind == "yarn" && fields.has(own("attention_factor")))  // in place of YaRN's own
      rope.attention_factor = number("attention_factor", 1) / (1 + 0.1 * std::log(rope.factor));
    const float one = fields.number_or(own("mscale"), 0.0f, 0.0f, 100.0f),
                all = fields.number_or(own("mscale_all_dim"), 0.0f, 0.0f, 100.0f);
    if (kind == "yarn" && !fields.has(own("attention_factor")) && one != 0 && all != 0 && rope.factor > 1) {
      const double log_factor = 0.1 * std::log(rope.factor);
      rope.attention_factor = (1 + one * log_factor) / (1 + all * log_factor) / (1 + log_factor);
    }
  } else if (kind == "dynamic") {
    if (!fields.has(own("factor"))) fields.refuse(own("factor"), "is missing, which the type 'dynamic' needs");
    if (rope.dimensions <= 2) fields.refuse(type, "is 'dynamic', which needs more than one rotated pair");
    rope.scaling = nn::RopeScaling::kDynamic;
    rope.factor = fields.number_or(own("factor"), 1.0f, 1.0f, 1e6f);
    rope.original_context = context_trained;
  } else if (kind == "longrope" || kind == "su") {
    rope.scaling = nn::RopeScaling::kLongRope;
    rope.divisors = fields.numbers(own("short_factor"), rope.dimensions / 2, 1e-6f, 1e9f);
    rope.long_divisors = fields.numbers(own("long_factor"), rope.dimensions / 2, 1e-6f, 1e9f);
    const float given = number("factor", static_cast<float>(stretch));
    const double magnitude =
        given <= 1 ? 1 : std::sqrt(1 + std::log(given) / std::log(static_cast<double>(rope.original_context)));
    rope.attention_factor = number("attention_factor", static_cast<float>(magnitude));
  } else {
    fields.refuse(type, fmt::format("is '{}', expected default, linear, yarn, longrope, llama3 or dynamic", kind));
  }
}

}  // namespace

std::vector<float> llama3_divisors(int64_t dimensions, double base, double factor, double low, double high,
                                   double original_context) {
  std::vector<float> divisors;
  for (int64_t i = 0; i < dimensions; i += 2) {
    const double frequency = std::pow(base, -static_cast<double>(i) / static_cast<double>(dimensions));
    const double waves = original_context * frequency / (2 * std::numbers::pi);  // in the original context
    const double smooth = std::clamp((waves - low) / (high - low), 0.0, 1.0);
    divisors.push_back(static_cast<float>(1 / ((1 - smooth) / factor + smooth)));
  }
  return divisors;
}

ModelRope read_rope(const ConfigReader& fields, const RopeSource& source) {
  ModelRope rope;
  rope.interleaved = false;
  const FieldName dimensions{"rope.dimension_count", nullptr};
  HuggingFaceNames names(fields, source.section);
  const FieldName own{nullptr, names("partial_rotary_factor")}, general{nullptr, "partial_rotary_factor|rotary_pct"};
  const float fraction = fields.number_or(fields.has(own) ? own : general, 1.0f, 1e-3f, 1.0f);
  const auto rotated = static_cast<int64_t>(static_cast<float>(source.head_dimension) * fraction);
  rope.dimensions = fields.size_or(dimensions, rotated, 2, source.head_dimension);
  if (rope.dimensions < 2 || rope.dimensions % 2 != 0) {
    const std::string why = fmt::format("{}, expected an even number", rope.dimensions);
    if (!fields.is_hugging_face()) fields.refuse(dimensions, "is " + why);
    fields.refuse({nullptr, "head_dim|num_attention_heads"}, "makes the rotated elements of a head " + why);
  }
  if (fields.is_hugging_face()) {
    read_hugging_face(fields, source, rope);
  } else {
    read_gguf(fields, source.context_trained, rope);
  }
  return rope;
}

}  // namespace gabbro::llm
