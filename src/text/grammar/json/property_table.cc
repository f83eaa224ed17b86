#include "src/text/grammar/json/property_table.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/text/grammar/json/schema_compiler.h"

namespace gabbro::text::grammar {
namespace {

void join_schema(Conjunction& to, NodeId schema) {
  const auto at = std::ranges::lower_bound(to, schema);
  if (at == to.end() || *at != schema) to.insert(at, schema);
}

}  // namespace

PropertyTable::PropertyTable(const Rules& rules, const ObjectShape& shape)
    : shape_(shape), required_(shape.required.begin(), shape.required.end()) {
  std::set<std::string> known;
  const auto add = [&](const std::string& name) {
    if (known.insert(name).second) names_.push_back(name);
  };
  for (const PropertySet& set : shape.sets) {
    auto& listed = listed_.emplace_back();
    for (const auto& [name, schema] : set.properties) {
      add(name);
      listed.emplace(name, schema);
    }
    for (const auto& [regex, schema] : set.patterns)
      patterns_.try_emplace(regex.text, dfa_of_string(rules, {.patterns = {regex}, .pointer = regex.pointer}));
  }
  for (const std::string& name : shape.required) add(name);
}

void PropertyTable::require_disjoint_patterns(const Rules& rules) const {
  for (auto one = patterns_.begin(); one != patterns_.end(); ++one) {
    for (auto other = patterns_.begin(); other != one; ++other) {
      if (one->second.intersect(rules, other->second).is_empty()) continue;
      SchemaDocument::refuse(shape_.pointer,
                             fmt::format("a name may match both '{}' and '{}'", other->first, one->first));
    }
  }
}

Conjunction PropertyTable::schemas_of_name(const std::string& name) const {
  const std::u32string characters = characters_of(name);
  Conjunction all;
  for (size_t i = 0; i < shape_.sets.size(); ++i) {
    const PropertySet& set = shape_.sets[i];
    const auto [begin, end] = listed_[i].equal_range(name);
    for (auto one = begin; one != end; ++one) join_schema(all, one->second);
    bool is_described = begin != end;
    for (const auto& [regex, schema] : set.patterns) {
      if (!patterns_.at(regex.text).accepts(characters)) continue;
      join_schema(all, schema);
      is_described = true;
    }
    if (!is_described && set.additional) join_schema(all, *set.additional);
  }
  return all;
}

Conjunction PropertyTable::schemas_of_pattern(const std::string& pattern) const {
  Conjunction all;
  for (const PropertySet& set : shape_.sets) {
    bool is_described = false;
    for (const auto& [regex, schema] : set.patterns) {
      if (regex.text != pattern) continue;
      join_schema(all, schema);
      is_described = true;
    }
    if (!is_described && set.additional) join_schema(all, *set.additional);
  }
  return all;
}

Conjunction PropertyTable::schemas_of_others() const {
  Conjunction all;
  for (const PropertySet& set : shape_.sets) {
    if (set.additional) join_schema(all, *set.additional);
  }
  if (all.empty() && shape_.closing) all.push_back(*shape_.closing);
  return all;
}

}  // namespace gabbro::text::grammar
