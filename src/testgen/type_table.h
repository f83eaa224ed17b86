// The table of model types, data/types.json, which tools/make_type_table.py makes from an installed transformers.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gabbro::testgen {

using Json = nlohmann::ordered_json;

// The arguments of a model class's forward().
struct Signature {
  std::string main_input;
  std::vector<std::string> arguments;
  std::vector<std::string> required;  // those without a default

  bool takes(std::string_view name) const;
};

class TypeTable {
 public:
  static const TypeTable& get();  // the embedded one

  const std::string& version() const { return version_; }                     // of transformers
  std::vector<std::string> types() const;                                     // sorted
  const std::map<std::string, std::string>& tasks() const { return tasks_; }  // task to auto class

  // The row of a type: config, family, classes, inputs, defaults. Null where the table does not have it.
  std::optional<Json> find(std::string_view type) const;
  Signature signature(size_t number) const;

  // The task of a class that no row has, by the end of its name: "causal-lm" of FooForCausalLM. Empty: none.
  std::string task_of_suffix(std::string_view class_name) const;

 private:
  explicit TypeTable(std::string_view text);

  std::string version_;
  std::map<std::string, std::string> tasks_;
  Json signatures_;
  std::map<std::string, std::string_view, std::less<>> rows_;  // unparsed: a pack needs one of 800
};

}  // namespace gabbro::testgen
