#include "src/testgen/recipe.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/testgen/embedded.h"

namespace gabbro::testgen {
namespace {

// Whether the configuration, or a part of it, has the field with a value.
bool has_field(const Json& config, const std::string& name) {
  const auto found = config.find(name);
  if (found != config.end() && !found->is_null()) return true;
  return std::ranges::any_of(config, [&](const Json& part) { return part.is_object() && has_field(part, name); });
}

bool is_one_of(const std::string& alternatives, const auto& holds) {
  for (size_t begin = 0; begin <= alternatives.size();) {
    const size_t end = std::min(alternatives.find('|', begin), alternatives.size());
    if (holds(alternatives.substr(begin, end - begin))) return true;
    begin = end + 1;
  }
  return false;
}

class Chooser {
 public:
  Chooser(const ModelChoice& model, const Json& config) : model_(model), config_(config) {}

  void offer(const Json& piece) {
    if (!holds(piece)) return;
    if (!recipe_.title.empty()) recipe_.title += ", ";
    recipe_.title += piece.at("title").get<std::string>();
    recipe_.names.push_back(piece.at("name"));
    for (const Json& line : piece.at("lines")) recipe_.lines.push_back(line);
    for (const Json& name : piece.at("gives")) given_.push_back(name);
  }

  // The first required argument that no piece fills.
  std::string missing(const Json& required_of_types) const {
    std::vector<std::string> required = model_.signature.required;
    if (const auto more = required_of_types.find(model_.type); more != required_of_types.end()) {
      for (const Json& name : *more) required.push_back(name);
    }
    for (const std::string& name : required) {
      if (std::ranges::find(given_, name) == given_.end()) return name;
    }
    return given_.empty() ? model_.signature.main_input : "";
  }

  Recipe take() { return std::move(recipe_); }

 private:
  bool all(const Json& piece, const char* key, bool wanted) const {
    if (!piece.contains(key)) return true;
    return std::ranges::all_of(
        piece.at(key), [&](const Json& name) { return model_.signature.takes(name.get<std::string>()) == wanted; });
  }

  bool one(const Json& piece, const char* key, const auto& holds) const {
    return !piece.contains(key) || is_one_of(piece.at(key), holds);
  }

  bool holds(const Json& piece) const {
    const auto is = [](const std::string& value) { return [&](const std::string& text) { return text == value; }; };
    const auto field = [&](const std::string& name) { return has_field(config_, name); };
    const auto no_field = [&](const std::string& name) { return !has_field(config_, name); };
    const auto required = [&](const std::string& name) {
      return std::ranges::find(model_.signature.required, name) != model_.signature.required.end();
    };
    const auto taken = [&](const std::string& name) { return recipe_.has(name); };
    return all(piece, "has", true) && all(piece, "lacks", false) &&
           one(piece, "main", is(model_.signature.main_input)) && one(piece, "task", is(model_.task)) &&
           one(piece, "type", is(model_.type)) && one(piece, "config", field) && one(piece, "config_lacks", no_field) &&
           one(piece, "requires", required) && !(piece.contains("unless") && is_one_of(piece.at("unless"), taken));
  }

  const ModelChoice& model_;
  const Json& config_;
  Recipe recipe_;
  std::vector<std::string> given_;
};

}  // namespace

bool Recipe::has(std::string_view piece) const { return std::ranges::find(names, piece) != names.end(); }

Recipe choose_recipe(const Source& source, const ModelChoice& model, const Json& config) {
  static const Json document = Json::parse(embedded_file("data/recipes.json"));
  Chooser chooser(model, config);
  for (const Json& piece : document.at("pieces")) chooser.offer(piece);
  if (const std::string missing = chooser.missing(document.at("required")); !missing.empty()) {
    throw bad_input("{}: no recipe for the argument '{}' of {}.forward()", source.name, missing, model.model_class);
  }
  return chooser.take();
}

}  // namespace gabbro::testgen
