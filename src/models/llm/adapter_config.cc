#include "src/models/llm/adapter_config.h"

#include <cmath>

#include "src/base/error.h"
#include "src/formats/gguf_parse.h"
#include "src/formats/json_file.h"

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

float alpha_of(const Json& value, const std::string& path, const std::string& field) {
  const float alpha = value.is_number() ? value.get<float>() : NAN;
  if (!std::isfinite(alpha)) throw bad_input("{}: {} is not a number", path, field);
  return alpha;
}

// Fields that ask for more than b · a, and what it is called.
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
};

// Initial values that are taken from the model's weights: the adapter belongs to the rest of them.
void check_initial_values(const Json& config, const std::string& path) {
  const auto found = config.find("init_lora_weights");
  if (found == config.end() || !found->is_string()) return;
  const std::string name = found->get<std::string>();
  for (const char* known : {"pissa", "olora", "corda", "loftq", "lora_ga"}) {
    if (!name.starts_with(known)) continue;
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{}: init_lora_weights {}: the adapter belongs to changed weights", path, gguf::quote(name)),
        "PEFT converts it: save_pretrained(path_initial_model_for_weight_conversion=...)");
  }
}

}  // namespace

AdapterConfig AdapterConfig::read(const std::string& path) {
  const Json config = read_json_file(path);
  if (!config.is_object()) throw bad_input("{}: is not an object", path);
  const std::string type =
      config.contains("peft_type") && config["peft_type"].is_string() ? config["peft_type"].get<std::string>() : "";
  if (type != "LORA") throw bad_input("{}: peft_type is {}, only \"LORA\" is supported", path, gguf::quote(type));
  for (const auto& [field, what] : kRefused) {
    if (is_set(config, field)) throw bad_input("{}: {}: adapters with {} are not supported", path, field, what);
  }
  if (is_set(config, "bias") && config["bias"] != "none")
    throw bad_input("{}: bias is not \"none\": adapters with biases are not supported", path);
  check_initial_values(config, path);
  AdapterConfig result;
  if (!config.contains("lora_alpha")) throw bad_input("{}: lora_alpha is missing", path);
  result.alpha_ = alpha_of(config["lora_alpha"], path, "lora_alpha");
  if (const auto found = config.find("use_rslora"); found != config.end() && !found->is_null()) {
    if (!found->is_boolean()) throw bad_input("{}: use_rslora is neither true nor false", path);
    result.rank_stabilized_ = found->get<bool>();
  }
  if (is_set(config, "alpha_pattern")) {
    const Json& patterns = config["alpha_pattern"];
    if (!patterns.is_object()) throw bad_input("{}: alpha_pattern is not an object", path);
    for (const auto& [name, value] : patterns.items()) {
      // PEFT takes them as regular expressions; names are what is written in practice.
      if (name.find_first_of("*+?[]()|^$\\") != std::string::npos)
        throw bad_input("{}: alpha_pattern: {} is a pattern, only names are supported", path, gguf::quote(name));
      result.alpha_pattern_[name] = alpha_of(value, path, "alpha_pattern." + name);
    }
  }
  return result;
}

float AdapterConfig::factor(const std::string& module, int64_t rank) const {
  float alpha = alpha_;
  for (const auto& [name, value] : alpha_pattern_) {
    if (module == name || module.ends_with("." + name)) alpha = value;
  }
  const auto r = static_cast<float>(rank);
  return alpha / (rank_stabilized_ ? std::sqrt(r) : r);
}

}  // namespace gabbro::llm
