// A config.json as transformers' configuration class of its model_type takes it: with the class's defaults, by either
// of a field's names, with null as no value, and without the fields that the class does not have.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "src/formats/hugging_face/json_metadata.h"

namespace gabbro::llm {

// A row of config_classes.inc, in JSON:
//   fields       "num_key_value_heads:in": 32. After the name the types that the class takes: i integer, f float,
//                b boolean, s string, n null, d object, l list, a anything; I, F and S are lists of integers, floats
//                and strings. The value is the default.
//   synonyms     names of fields by their other names
//   unread       fields of these that nothing reads
//   further      names that are not fields of the class, but that its code or the model's reads
//   fixed        names that cannot be set, since the class computes them
//   biases       modules that never have a bias (false), or have one where a field says so
//   rope         rotary embeddings: see rope_parameters.h
//   whole_heads  the width has to be a multiple of the number of heads
//   rotary_head_dim   a head_dim, which the class does not declare, counts only for rotary embeddings
//   no_null_head_dim  a head_dim, which the class does not declare, cannot be null
//   text_config  a class of several models: the language model's model_type
struct ConfigClass {
  std::string_view model_type;
  const char* row;
};

std::span<const ConfigClass> config_classes();
// Null: transformers has no such class, and fields are read unchanged.
const ConfigClass* find_config_class(std::string_view model_type);

// The language model of a config.json: the whole of it, or its text_config, whose model_type may be left to the class
// of the whole.
struct TextFields {
  std::string model_type;  // "": none is given, as in the configuration of a module
  const nlohmann::ordered_json* fields;
  std::string prefix;  // "text_config.", or ""
};
TextFields text_fields_of(const nlohmann::ordered_json& config, const std::string& path);

class ClassConfig {
 public:
  // `config`: all fields, or the text_config of them, which `prefix` says ("text_config."). Throws bad_input that names
  // the file and the field where the class refuses a value.
  ClassConfig(const ConfigClass& of, const nlohmann::ordered_json& config, std::string prefix, const std::string& path);

  const Metadata& metadata() const { return metadata_; }
  // The key in metadata() of a field or of a part of one ("rope_parameters.factor"), by any of its names; "" where the
  // class has no such field.
  std::string key_of(std::string_view name) const;
  bool is_null(const std::string& key) const;          // a field, or a name that the file gives
  bool is_nested() const { return !prefix_.empty(); }  // the language model of several
  // A field, of this key, is null in the file in the place of a default, and null is nothing that the class computes.
  bool lost_default(const std::string& key) const { return lost_.contains(key); }
  bool has_whole_heads() const { return row_.contains("whole_heads"); }
  // head_dim counts for rotary embeddings alone.
  bool has_rotary_head_dim() const { return row_.contains("rotary_head_dim"); }
  // Whether a module ("q_proj") has a bias; nothing where config.json does not say it.
  std::optional<bool> has_bias(const std::string& module) const;

 private:
  using Json = nlohmann::ordered_json;

  std::map<std::string, std::string> read_class();  // the types of fields by the names that the class declares
  void read_fields(const Json& config);
  void take(const std::string& spelled, const Json& value, const std::string& types);
  void check_type(const std::string& spelled, const Json& value, std::string_view types) const;
  void check_layer_types(const char* name, std::initializer_list<std::string_view> known) const;
  std::string canonical(const std::string& name) const;
  const Json* find(const std::string& name) const;  // null where it is missing, or null
  [[noreturn]] void refuse(const std::string& field, const std::string& why) const;

  std::string model_type_, prefix_, path_;
  Json row_;
  Json values_ = Json::object();                // by the names of the class
  std::map<std::string, std::string> spelled_;  // names in the file, where these are others
  std::set<std::string> readable_, lost_;
  JsonMetadata metadata_;
};

}  // namespace gabbro::llm
