#include "src/testgen/type_table.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/testgen/embedded.h"

namespace gabbro::testgen {

bool Signature::takes(std::string_view name) const { return std::ranges::find(arguments, name) != arguments.end(); }

const TypeTable& TypeTable::get() {
  static const TypeTable table(embedded_file("data/types.json"));
  return table;
}

// The head is one object up to the line "types":{, then each type has one line.
TypeTable::TypeTable(std::string_view text) {
  const size_t at = text.find("\"types\":{\n");
  if (at == std::string_view::npos) throw failed("types.json: no line \"types\"");
  std::string head(text.substr(0, at));
  head.erase(head.find_last_of(','));
  const Json parsed = Json::parse(head + "}");
  version_ = parsed.at("transformers");
  for (const auto& [task, name] : parsed.at("tasks").items()) tasks_[task] = name;
  signatures_ = parsed.at("signatures");
  for (text.remove_prefix(at + 10); text.starts_with('"');) {
    const size_t end = std::min(text.find('\n'), text.size() - 1);
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const size_t quote = line.find('"', 1);
    std::string_view row = line.substr(quote + 2);
    if (row.ends_with(',')) row.remove_suffix(1);
    rows_[std::string(line.substr(1, quote - 1))] = row;
  }
}

std::vector<std::string> TypeTable::types() const {
  std::vector<std::string> names;
  for (const auto& [name, row] : rows_) names.push_back(name);
  return names;
}

std::optional<Json> TypeTable::find(std::string_view type) const {
  const auto row = rows_.find(type);
  if (row == rows_.end()) return std::nullopt;
  return Json::parse(row->second);
}

Signature TypeTable::signature(size_t number) const {
  Signature signature;
  const Json& list = signatures_.at(number);
  signature.main_input = list.at(0);
  for (size_t i = 1; i < list.size(); ++i) {
    std::string name = list[i];
    if (name.ends_with('*')) {
      name.pop_back();
      signature.required.push_back(name);
    }
    signature.arguments.push_back(std::move(name));
  }
  return signature;
}

std::string TypeTable::task_of_suffix(std::string_view class_name) const {
  std::string best, longest;
  for (const auto& [task, auto_class] : tasks_) {
    const std::string suffix = auto_class.substr(std::string_view("Auto").size());  // "ModelForCausalLM"
    const std::string_view ending = std::string_view(suffix).substr(std::min<size_t>(5, suffix.size()));
    if (!ending.empty() && class_name.ends_with(ending) && ending.size() > longest.size()) {
      best = task;
      longest = ending;
    }
  }
  if (best.empty() && class_name.ends_with("Model")) return "base";
  return best;
}

}  // namespace gabbro::testgen
