#include "src/testgen/shrink_rules.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/testgen/embedded.h"

namespace gabbro::testgen {
namespace {

Kind parse_kind(const std::string& name) {
  static const std::pair<const char*, Kind> kKinds[] = {{"keep", Kind::kKeep},
                                                        {"min", Kind::kMin},
                                                        {"layers", Kind::kLayers},
                                                        {"stage_heads", Kind::kHeads},
                                                        {"head_size", Kind::kHeadSize},
                                                        {"kv_heads", Kind::kKvHeads},
                                                        {"vocabulary", Kind::kVocabulary},
                                                        {"token", Kind::kToken},
                                                        {"image", Kind::kImage},
                                                        {"patch", Kind::kPatch},
                                                        {"stages", Kind::kStages},
                                                        {"widths", Kind::kWidths}};
  for (const auto& [kind_name, kind] : kKinds) {
    if (name == kind_name) return kind;
  }
  throw failed("shrink.json: unknown kind {}", name);
}

std::vector<ShrinkRule> read_rules() {
  std::vector<ShrinkRule> rules;
  const auto document = nlohmann::json::parse(embedded_file("data/shrink.json"));
  for (const auto& row : document.at("rules")) {
    rules.push_back({row.at("fields"), parse_kind(row.at("kind")), row.value("to", int64_t{0})});
  }
  return rules;
}

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view text) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t at = star; at <= text.size(); ++at) {
    if (matches_pattern(rest, text.substr(at))) return true;
  }
  return false;
}

const ShrinkRule* find_shrink_rule(std::string_view field) {
  static const std::vector<ShrinkRule> rules = read_rules();
  for (const ShrinkRule& rule : rules) {
    const auto names = [&](const std::string& pattern) { return matches_pattern(pattern, field); };
    if (std::ranges::any_of(rule.fields, names)) return &rule;
  }
  return nullptr;
}

}  // namespace gabbro::testgen
