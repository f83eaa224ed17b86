#include "src/models/config/config_class.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/error.h"
#include "src/models/config/rope_parameters.h"

namespace gabbro::llm {
namespace {

using Json = nlohmann::ordered_json;

constexpr ConfigClass kClasses[] = {
#include "src/models/config/config_classes.inc"
};

constexpr const char* kTextConfig = "text_config";

bool is_float(const Json& value) {
  return value.is_number_float() || (value.is_object() && value.size() == 1 && value.contains("__float__"));
}

bool is_of_type(const Json& value, char type) {
  const auto all = [&](char of_each) {
    return value.is_array() && std::ranges::all_of(value, [&](const Json& one) { return is_of_type(one, of_each); });
  };
  switch (type) {
    case 'a':
      return true;
    case 'i':
      return value.is_number_integer();
    case 'f':
      return is_float(value);
    case 'b':
      return value.is_boolean();
    case 's':
      return value.is_string();
    case 'n':
      return value.is_null();
    case 'd':
      return value.is_object();
    case 'l':
      return value.is_array();
    default:
      return all(static_cast<char>(type - 'A' + 'a'));
  }
}

std::string describe(std::string_view types) {
  std::string text;
  for (const char type : types) {
    const char* const name = type == 'i'   ? "an integer"
                             : type == 'f' ? "a number with a point"
                             : type == 'b' ? "true or false"
                             : type == 's' ? "a string"
                             : type == 'n' ? "null"
                             : type == 'd' ? "an object"
                             : type == 'l' ? "a list"
                             : type == 'I' ? "a list of integers"
                             : type == 'F' ? "a list of numbers with a point"
                                           : "a list of strings";
    text += (text.empty() ? "" : " or ") + std::string(name);
  }
  return text;
}

// Short enough for a line.
std::string shown(const Json& value) {
  constexpr size_t kMost = 40;
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

// The language model of a class of several models; "" where it has none.
std::string text_type_of(std::string_view model_type) {
  const ConfigClass* const of = find_config_class(model_type);
  return of != nullptr ? Json::parse(of->row).value(kTextConfig, "") : "";
}

}  // namespace

std::span<const ConfigClass> config_classes() { return kClasses; }

const ConfigClass* find_config_class(std::string_view model_type) {
  const auto found = std::ranges::find(kClasses, model_type, &ConfigClass::model_type);
  return found != std::end(kClasses) ? &*found : nullptr;
}

ClassConfig::ClassConfig(const ConfigClass& of, const Json& config, std::string prefix, const std::string& path)
    : model_type_(of.model_type), prefix_(std::move(prefix)), path_(path), row_(Json::parse(of.row)) {
  read_fields(config);
  check_layer_types("layer_types", {"full_attention", "sliding_attention", "chunked_attention", "window_attention",
                                    "indexed_attention", "compressed_sparse_attention", "heavily_compressed_attention",
                                    "minimax_m3_sparse", "conv", "moe", "hybrid", "hybrid_sliding",
                                    "reference_sliding_attention", "linear_attention"});
  check_layer_types("mlp_layer_types", {"sparse", "dense"});
  if (row_.contains("rope")) {
    const auto refuse_part = [&](const std::string& field, const std::string& why) { refuse(field, why); };
    values_["rope_parameters"] =
        standard_rope_parameters({.of_class = row_["rope"], .given = config, .values = values_, .refuse = refuse_part});
    for (const char* part : {"rope_theta", "rope_scaling", "partial_rotary_factor", "original_max_position_embeddings",
                             "rotary_emb_base", "rotary_pct", "rope_local_base_freq"})
      readable_.erase(part);
    readable_.insert("rope_parameters");
  } else {
    check_foreign_rope(config, [&](const std::string& field, const std::string& why) { refuse(field, why); });
  }
  Json shown_values = Json::object();
  for (const auto& [name, value] : values_.items()) {
    const auto other = spelled_.find(name);
    if (readable_.contains(name)) shown_values[other != spelled_.end() ? other->second : name] = value;
  }
  values_ = std::move(shown_values);
  metadata_.add(values_, prefix_);
  metadata_.finish(path);
}

std::string ClassConfig::canonical(const std::string& name) const {
  const auto synonyms = row_.find("synonyms");
  if (synonyms == row_.end()) return name;
  const auto other = synonyms->find(name);
  return other != synonyms->end() ? other->get<std::string>() : name;
}

void ClassConfig::refuse(const std::string& field, const std::string& why) const {
  throw bad_input("{}: field '{}{}' {}", path_, prefix_, field, why);
}

void ClassConfig::check_type(const std::string& spelled, const Json& value, std::string_view types) const {
  if (std::ranges::any_of(types, [&](char type) { return is_of_type(value, type); })) return;
  refuse(spelled, fmt::format("is {}, models of type '{}' have {}", shown(value), model_type_, describe(types)));
}

std::map<std::string, std::string> ClassConfig::read_class() {
  std::map<std::string, std::string> types;
  for (const auto& [key, value] : row_.at("fields").items()) {
    const size_t colon = key.find(':');
    const std::string declared = key.substr(0, colon), name = canonical(declared);
    types[declared] = key.substr(colon + 1);
    values_[name] = value == "auto" ? Json() : value;
    readable_.insert(name);
  }
  for (const Json& name : row_.value("unread", Json::array())) readable_.erase(canonical(name.get<std::string>()));
  for (const Json& name : row_.value("further", Json::array())) readable_.insert(name.get<std::string>());
  readable_.insert({"architectures", "id2label", "label2id", "num_labels"});  // of all classes
  return types;
}

// transformers sets other names after those that the class declares.
void ClassConfig::read_fields(const Json& config) {
  const std::map<std::string, std::string> types = read_class();
  for (const bool others : {false, true}) {
    for (const auto& [spelled, value] : config.items()) {
      const auto type = types.find(spelled);
      if ((type == types.end()) == others) take(spelled, value, type != types.end() ? type->second : "");
    }
  }
  if (const Json* causal = find("is_causal"); causal != nullptr && *causal == false)
    refuse("is_causal", "is false, which is not supported");
  if (find("per_layer_config") != nullptr) refuse("per_layer_config", "is given, which is not supported");
}

// `types`: the types of a field that the class declares; else "".
void ClassConfig::take(const std::string& spelled, const Json& value, const std::string& types) {
  constexpr std::string_view kComputedOfNull[] = {"num_key_value_heads",  "head_dim",    "sliding_window",
                                                  "attention_chunk_size", "q_lora_rank", "mamba_d_ssm"};
  const std::string name = canonical(spelled);
  const auto is_in = [&](const char* list) {
    const Json names = row_.value(list, Json::array());
    return std::ranges::any_of(names, [&](const Json& one) { return one == name; });
  };
  if (is_in("fixed")) refuse(spelled, fmt::format("cannot be set: models of type '{}' compute it", model_type_));
  if (!types.empty()) check_type(spelled, value, types);
  if (types.empty() && value.is_object() && !name.ends_with("_config") && !name.starts_with("rope_") &&
      is_in("further"))
    refuse(spelled, "is an object, expected a number or a string");
  if (name == "head_dim" && types.empty() && value.is_null() && row_.contains("no_null_head_dim"))
    refuse(spelled, "is null");
  Json& taken = values_[name];
  if (value.is_null() && !taken.is_null() && std::ranges::find(kComputedOfNull, name) == std::end(kComputedOfNull))
    lost_.insert(prefix_ + spelled);
  if (value.is_object() && taken.is_object()) {  // a class with defaults
    taken.update(value);
  } else {
    taken = value == "auto" && types.find('i') != std::string::npos ? Json() : value;
  }
  if (name != spelled) spelled_[name] = spelled;
}

// The check is of any list, since transformers keeps fields that the class does not have as well.
void ClassConfig::check_layer_types(const char* name, std::initializer_list<std::string_view> known) const {
  const Json* const types = find(canonical(name));
  if (types == nullptr) return;
  if (!types->is_array()) refuse(name, fmt::format("is {}, expected a list of strings", shown(*types)));
  constexpr std::string_view kEarly[] = {"mamba", "attention", "mlp", "deepseek_sparse_attention",
                                         "qwen_sparse_attention"};
  for (const Json& type : *types) {
    if (!type.is_string() || (std::ranges::find(known, type.get_ref<const std::string&>()) == known.end() &&
                              std::ranges::find(kEarly, type.get_ref<const std::string&>()) == std::end(kEarly)))
      refuse(name, fmt::format("has {}, expected a kind of layer", shown(type)));
  }
  const std::string size = canonical("num_hidden_layers");
  const Json* const layers = find(size);
  if (layers != nullptr && readable_.contains(size) && *layers != types->size())
    refuse(name, fmt::format("has {} layers, {} is {}", types->size(), size, shown(*layers)));
}

const Json* ClassConfig::find(const std::string& name) const {
  const auto found = values_.find(name);
  return found != values_.end() && !found->is_null() ? &*found : nullptr;
}

bool ClassConfig::is_null(const std::string& key) const {
  const auto found = key.size() > prefix_.size() ? values_.find(key.substr(prefix_.size())) : values_.end();
  return found != values_.end() && found->is_null();
}

std::optional<bool> ClassConfig::has_bias(const std::string& module) const {
  const auto biases = row_.find("biases");
  const auto rule = biases != row_.end() ? biases->find(module) : row_.end();
  if (biases == row_.end() || rule == biases->end()) return std::nullopt;
  if (rule->is_boolean()) return rule->get<bool>();
  const std::string name = canonical(rule->get<std::string>());
  const auto spelled = spelled_.find(name);
  const auto value = values_.find(spelled != spelled_.end() ? spelled->second : name);
  return value != values_.end() && *value == true;
}

std::string ClassConfig::key_of(std::string_view name) const {
  const size_t dot = std::min(name.find('.'), name.size());
  const std::string root = canonical(std::string(name.substr(0, dot)));
  if (!readable_.contains(root)) return "";
  const auto other = spelled_.find(root);
  return prefix_ + (other != spelled_.end() ? other->second : root) + std::string(name.substr(dot));
}

TextFields text_fields_of(const Json& config, const std::string& path) {
  const auto type_in = [&](const Json& object) -> std::string {
    const auto type = object.find("model_type");
    if (type == object.end() || type->is_null()) return "";
    if (!type->is_string()) throw bad_input("{}: field 'model_type' is {}, expected a string", path, shown(*type));
    return type->get<std::string>();
  };
  const std::string outer = type_in(config), of_text = text_type_of(outer);
  if (const auto nested = config.find(kTextConfig); nested != config.end() && nested->is_object()) {
    const std::string inner = type_in(*nested), type = inner.empty() ? of_text : inner;
    if (!type.empty()) return {type, &*nested, std::string(kTextConfig) + "."};
  }
  return {of_text.empty() ? outer : of_text, &config, ""};
}

}  // namespace gabbro::llm
