#include "src/models/config/adapter_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/hugging_face/json_file.h"

namespace gabbro::llm {
namespace {

using Json = nlohmann::ordered_json;

// Whether a field is there and says more than "no".
bool is_set(const Json& config, const char* field) {
  const auto found = config.find(field);
  if (found == config.end() || found->is_null()) return false;
  if (found->is_boolean()) return found->get<bool>();
  return !((found->is_array() || found->is_object() || found->is_string()) && found->empty());
}

float number_of(const Json& value, const std::string& path, const std::string& field) {
  const float alpha = value.is_number() ? value.get<float>() : NAN;
  if (!std::isfinite(alpha)) throw bad_input("{}: {} is not a number", path, field);
  return alpha;
}

// Fields that ask for more than b · a, and the name of that.
constexpr std::pair<const char*, const char*> kRefused[] = {
    {"use_dora", "DoRA"},
    {"modules_to_save", "whole modules"},
    {"lora_bias", "biases"},
    {"target_parameters", "parameters that are not linear layers"},
    {"trainable_token_indices", "token embeddings"},
    {"alora_invocation_tokens", "activated LoRA"},
    {"layer_replication", "layers that are there several times"},
    {"use_qalora", "QALoRA"},
    {"arrow_config", "Arrow routing"},
    {"use_bdlora", "block-diagonal factors"},
    {"monteclora_config", "sampled factors"},
};

// Initial values that are taken from the model's weights: the adapter belongs to the rest of them.
void check_initial_values(const Json& config, const std::string& path) {
  const auto found = config.find("init_lora_weights");
  if (found == config.end() || !found->is_string()) return;
  const std::string name = found->get<std::string>();
  for (const char* known : {"pissa", "olora", "corda", "loftq", "lora_ga"}) {
    if (!name.starts_with(known)) continue;
    throw Error(ErrorCode::kBadInput,
                fmt::format("{}: init_lora_weights {}: the adapter belongs to changed weights", path, quote(name)),
                "PEFT converts it: save_pretrained(path_initial_model_for_weight_conversion=...)");
  }
}

}  // namespace

AdapterConfig AdapterConfig::read(const std::string& path) {
  const Json config = read_json_file(path);
  if (!config.is_object()) throw bad_input("{}: is not an object", path);
  const std::string type =
      config.contains("peft_type") && config["peft_type"].is_string() ? config["peft_type"].get<std::string>() : "";
  if (type != "LORA") throw bad_input("{}: peft_type is {}, only \"LORA\" is supported", path, quote(type));
  for (const auto& [field, what] : kRefused) {
    if (is_set(config, field)) throw bad_input("{}: {}: adapters with {} are not supported", path, field, what);
  }
  if (is_set(config, "bias") && config["bias"] != "none")
    throw bad_input("{}: bias is not \"none\": adapters with biases are not supported", path);
  check_initial_values(config, path);
  AdapterConfig result;
  result.path_ = path;
  if (!config.contains("lora_alpha")) throw bad_input("{}: lora_alpha is missing", path);
  result.alpha_ = number_of(config["lora_alpha"], path, "lora_alpha");
  if (is_set(config, "r")) result.rank_ = number_of(config["r"], path, "r");
  if (const auto found = config.find("use_rslora"); found != config.end() && !found->is_null()) {
    if (!found->is_boolean()) throw bad_input("{}: use_rslora is neither true nor false", path);
    result.rank_stabilized_ = found->get<bool>();
  }
  result.alpha_pattern_ = read_patterns(config, path, "alpha_pattern");
  result.rank_pattern_ = read_patterns(config, path, "rank_pattern");
  result.targets_ = read_choice(config, path, "target_modules");
  result.excluded_ = read_choice(config, path, "exclude_modules");
  return result;
}

AdapterConfig::Patterns AdapterConfig::read_patterns(const Json& config, const std::string& path, const char* field) {
  Patterns patterns;
  if (!is_set(config, field)) return patterns;
  const Json& object = config[field];
  if (!object.is_object()) throw bad_input("{}: {} is not an object", path, field);
  for (const auto& [name, value] : object.items()) {
    // The expression that PEFT makes of a key.
    patterns.push_back({NamePattern("(.*\\.)?(" + name + ")$", fmt::format("{}: {}: {}", path, field, quote(name))),
                        number_of(value, path, fmt::format("{}.{}", field, name))});
  }
  return patterns;
}

std::optional<AdapterConfig::ModuleChoice> AdapterConfig::read_choice(const Json& config, const std::string& path,
                                                                      const char* field) {
  if (!is_set(config, field)) return std::nullopt;
  const Json& value = config[field];
  ModuleChoice choice;
  if (value.is_string()) {
    const std::string expression = value.get<std::string>();
    if (expression == "all-linear") return std::nullopt;
    choice.pattern =
        NamePattern("(?:" + expression + ")\\Z", fmt::format("{}: {}: {}", path, field, quote(expression)));
    return choice;
  }
  if (!value.is_array()) throw bad_input("{}: {} is neither a text nor a list", path, field);
  for (const Json& name : value) {
    if (!name.is_string()) throw bad_input("{}: {} has an entry that is not a text", path, field);
    choice.names.push_back(name.get<std::string>());
  }
  return choice;
}

bool AdapterConfig::ModuleChoice::contains(const std::string& module) const {
  if (pattern) return pattern->matches(module);
  return std::ranges::any_of(names,
                             [&](const std::string& name) { return module == name || module.ends_with("." + name); });
}

float AdapterConfig::factor(const std::string& module, int64_t rank) const {
  const auto value_of = [&](const Patterns& patterns) -> const double* {
    const auto found = std::ranges::find_if(patterns, [&](const PatternValue& p) { return p.pattern.matches(module); });
    return found != patterns.end() ? &found->value : nullptr;
  };
  if ((targets_ && !targets_->contains(module)) || (excluded_ && excluded_->contains(module))) {
    throw bad_input("{}: module {} of the adapter's file is not among those that {} names", path_, quote(module),
                    targets_ && !targets_->contains(module) ? "target_modules" : "exclude_modules leaves");
  }
  const double* const own_rank = value_of(rank_pattern_);
  const std::optional<double> expected = own_rank != nullptr ? std::optional(*own_rank) : rank_;
  if (expected && *expected != static_cast<double>(rank)) {
    throw bad_input("{}: module {} has rank {} by {}, its matrices have {}", path_, quote(module), *expected,
                    own_rank != nullptr ? "rank_pattern" : "r", rank);
  }
  const double* const own_alpha = value_of(alpha_pattern_);
  const float alpha = own_alpha != nullptr ? static_cast<float>(*own_alpha) : alpha_;
  const auto r = static_cast<float>(rank);
  return alpha / (rank_stabilized_ ? std::sqrt(r) : r);
}

}  // namespace gabbro::llm
