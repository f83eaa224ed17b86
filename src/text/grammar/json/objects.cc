// Objects of a schema: listed properties in their order, then others.
#include <algorithm>
#include <map>

#include "src/base/error.h"
#include "src/text/grammar/json/property_table.h"
#include "src/text/grammar/json/schema_compiler.h"

namespace gabbro::text::grammar {
namespace {

constexpr size_t kMostPairRules = 100'000;

}  // namespace

// The pairs of an object, of all sets of properties together.
struct ObjectPlan {
  struct Property {
    std::string name;
    ExprId pair;
    bool required;
  };
  std::vector<Property> properties;
  ExprId other;  // a pair with another name
  int32_t least, most;
  int32_t counted = 1;  // numbers of pairs up to this one differ
  std::map<std::pair<size_t, int32_t>, RuleId> rules{};
};

// Names that match all schemas of `names`.
CharDfa SchemaCompiler::names_dfa(const Conjunction& names, const std::string& pointer) {
  std::optional<CharDfa> all;
  for (const Shape& shape : document_.shapes(names)) {
    if ((shape.types & kStringType) == 0) continue;
    CharDfa one;
    if (shape.values) {
      std::vector<std::u32string> texts;
      for (const SchemaJson& value : matching_values(shape)) {
        if (value.is_string()) texts.push_back(characters_of(value.get_ref<const std::string&>()));
      }
      one = CharDfa::of_texts(rules_, texts);
    } else {
      one = dfa_of_string(rules_, shape.string);
    }
    if (all) SchemaDocument::refuse(pointer, "alternatives of names are not supported");
    all = std::move(one);
  }
  return all ? *all : CharDfa();
}

// The pairs from the property `index` on, after `count` of them.
ExprId SchemaCompiler::pairs_from(ObjectPlan& plan, size_t index, int32_t count) {
  count = std::min(count, plan.counted);
  const auto [found, is_new] = plan.rules.try_emplace({index, count}, 0);
  if (!is_new) return rules_.rule(found->second);
  if (plan.rules.size() > kMostPairRules) throw bad_input("an object has too many optional and counted properties");
  const RuleId rule = rules_.add_rule("pairs");
  found->second = rule;
  const auto separated = [&](ExprId pair) { return count > 0 ? rules_.sequence({json_.comma(), pair}) : pair; };
  ExprId body = 0;
  if (index == plan.properties.size()) {
    const int32_t least = std::max(plan.least - count, 0);
    const int32_t most = plan.most == kUnbounded ? kUnbounded : plan.most - count;
    body = json_.list(plan.other, least, most);
    if (count > 0) body = rules_.sequence({rules_.repeat(separated(plan.other), least, most), json_.space()});
    if (most < least) body = rules_.nothing();
  } else {
    const ObjectPlan::Property& property = plan.properties[index];
    std::vector<ExprId> choices;
    if (plan.most == kUnbounded || count < plan.most)
      choices.push_back(rules_.sequence({separated(property.pair), pairs_from(plan, index + 1, count + 1)}));
    if (!property.required) choices.push_back(pairs_from(plan, index + 1, count));
    body = rules_.choice(std::move(choices));
  }
  rules_.define(rule, body);
  return rules_.rule(rule);
}

// A pair whose name is not listed: one choice for each pattern, and one for names that match none. Nothing: none.
std::optional<ExprId> SchemaCompiler::other_pair(const PropertyTable& table, const std::optional<CharDfa>& allowed) {
  std::vector<ExprId> others;
  std::optional<CharDfa> rest = allowed;
  const auto without = [&](const CharDfa& dfa) {
    const CharDfa left = dfa.complement();
    rest = rest ? rest->intersect(rules_, left) : left;
  };
  if (!table.names().empty()) {
    std::vector<std::u32string> texts;
    for (const std::string& name : table.names()) texts.push_back(characters_of(name));
    without(CharDfa::of_texts(rules_, texts));
  }
  table.require_disjoint_patterns(rules_);
  for (const auto& [pattern, matching] : table.patterns()) {
    const CharDfa dfa = rest ? rest->intersect(rules_, matching) : matching;
    const ExprId key = json_.names(dfa);
    others.push_back(rules_.sequence({key, json_.colon(), value(table.schemas_of_pattern(pattern))}));
  }
  const Conjunction additional = table.schemas_of_others();
  const auto is_false = [&](NodeId id) { return *document_.node(id).schema == false; };
  if (std::ranges::none_of(additional, is_false)) {
    for (const auto& [pattern, dfa] : table.patterns()) without(dfa);
    const ExprId key = json_.names(rest);
    others.push_back(rules_.sequence({key, json_.colon(), value(additional)}));
  }
  if (others.empty()) return std::nullopt;
  return rules_.choice(std::move(others));
}

ExprId SchemaCompiler::object(const ObjectShape& shape) {
  std::optional<CharDfa> allowed;
  if (!shape.names.empty()) allowed = names_dfa(shape.names, shape.pointer);
  const PropertyTable table(rules_, shape);
  ObjectPlan plan{.properties = {}, .other = 0, .least = shape.least, .most = shape.most};
  for (const std::string& name : table.names()) {
    const bool is_allowed = !allowed || allowed->accepts(characters_of(name));
    if (!is_allowed && table.is_required(name)) return rules_.nothing();
    if (!is_allowed) continue;
    const ExprId pair = rules_.sequence({json_.name(name), json_.colon(), value(table.schemas_of_name(name))});
    plan.properties.push_back({.name = name, .pair = pair, .required = table.is_required(name)});
  }
  const std::optional<ExprId> other = other_pair(table, allowed);
  plan.other = other ? *other : rules_.nothing();
  // A name may come twice, which counts once.
  if (other && plan.least > std::max<int32_t>(1, static_cast<int32_t>(shape.required.size()))) {
    SchemaDocument::refuse(shape.pointer,
                           "minProperties is supported only for listed properties, up to the required ones");
  }
  if (plan.least > 1 || plan.most != kUnbounded)
    plan.counted = std::max({1, plan.least, plan.most == kUnbounded ? 0 : plan.most});
  return json_.enclosed("{", pairs_from(plan, 0, 0), "}");
}

}  // namespace gabbro::text::grammar
