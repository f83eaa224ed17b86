#include "src/text/grammar/json/schema.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/text/grammar/automaton.h"
#include "src/text/grammar/json/property_table.h"
#include "src/text/grammar/json/schema_compiler.h"
#include "src/text/unicode/utf8.h"

namespace gabbro::text::grammar {
namespace {

constexpr int kDeepestSchema = 64;
constexpr int kDeepestProof = 3;  // of schemas that exclude each other, by properties of properties
constexpr TypeBit kTypes[] = {kNullType, kBooleanType, kNumberType, kStringType, kArrayType, kObjectType};

SchemaJson parse_schema(std::string_view text) {
  if (!is_valid_utf8(text)) throw bad_input("the JSON schema is not UTF-8");
  const auto check_depth = [](int depth, SchemaJson::parse_event_t, SchemaJson&) {
    if (depth > kDeepestSchema) throw bad_input("the JSON schema is nested deeper than {}", kDeepestSchema);
    return true;
  };
  try {
    return SchemaJson::parse(text, check_depth);
  } catch (const SchemaJson::exception& error) {
    throw bad_input("the JSON schema is not JSON: {}", error.what());
  }
}

bool is_scalar(const SchemaJson& value) { return !value.is_structured(); }

}  // namespace

RuleId SchemaCompiler::rule_of(Conjunction all) {
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  const auto [found, is_new] = known_.try_emplace(all, 0);
  if (!is_new) return found->second;
  const RuleId rule = rules_.add_rule(all.empty() ? "value" : document_.node(all.front()).pointer);
  found->second = rule;
  rules_.check_time();
  std::vector<ExprId> parts;
  for (const Shape& shape : document_.shapes(all)) parts.push_back(shape_expr(shape));
  rules_.define(rule, rules_.choice(std::move(parts)));
  return rule;
}

ExprId SchemaCompiler::value(Conjunction all) {
  std::erase_if(all, [&](NodeId id) { return *document_.node(id).schema == true; });
  return all.empty() ? json_.any_value() : rules_.rule(rule_of(std::move(all)));
}

ExprId SchemaCompiler::shape_expr(const Shape& shape) {
  std::vector<ExprId> parts;
  if (shape.values) {
    std::vector<std::string> scalars;
    for (const SchemaJson& value : matching_values(shape)) {
      const bool is_plain = json_.spelling().has_json_strings() && !json_.spelling().python_words;
      if (is_scalar(value) && is_plain) {
        scalars.push_back(JsonRules::spelled(value));
      } else {
        parts.push_back(json_.value(value));
      }
    }
    parts.push_back(rules_.one_of(std::move(scalars)));
    return rules_.choice(std::move(parts));
  }
  if (shape.types == kAllTypes && shape.constrained == 0) return json_.any_value();
  for (const TypeBit type : kTypes) {
    if ((shape.types & type) != 0) parts.push_back(typed(shape, type));
  }
  return rules_.choice(std::move(parts));
}

ExprId SchemaCompiler::typed(const Shape& shape, TypeBit type) {
  switch (type) {
    case kNullType:
      return json_.null();
    case kBooleanType:
      return json_.boolean();
    case kNumberType:
      return number_expr(rules_, shape.number);
    case kStringType:
      return string(shape.string);
    case kArrayType:
      return array(shape.array);
    case kObjectType:
      return (shape.constrained & kObjectType) != 0 ? object(shape.object) : json_.any_object();
  }
  return rules_.nothing();
}

ExprId SchemaCompiler::array(const ArrayShape& shape) {
  if (shape.least > shape.most) return rules_.nothing();
  const ExprId other = value(shape.rest);
  const auto count = static_cast<int32_t>(shape.first.size());
  if (count == 0) return json_.enclosed("[", json_.list(other, shape.least, shape.most), "]");
  // From the end back to the first element.
  ExprId rest =
      rules_.sequence({rules_.repeat(rules_.sequence({json_.comma(), other}), std::max(shape.least - count, 0),
                                     shape.most == kUnbounded ? kUnbounded : std::max(shape.most - count, 0)),
                       json_.space()});
  for (int32_t i = count; i-- > 0;) {
    std::vector<ExprId> choices;
    const ExprId element = value(shape.first[static_cast<size_t>(i)]);
    if (i < shape.most) choices.push_back(rules_.sequence({i > 0 ? json_.comma() : rules_.empty(), element, rest}));
    if (i >= shape.least) choices.push_back(i > 0 ? json_.space() : rules_.empty());
    rest = rules_.choice(std::move(choices));
  }
  return json_.enclosed("[", rest, "]");
}

// The values of `enum` and `const` that match the other keywords: tried on the automaton of these.
std::vector<SchemaJson> SchemaCompiler::matching_values(const Shape& shape) {
  std::vector<SchemaJson> found;
  std::optional<Automaton> others;
  for (const SchemaJson& value : *shape.values) {
    const TypeBit type = type_of(value);
    if ((shape.types & type) == 0) continue;
    if ((shape.constrained & type) != 0) {
      if (!others) {
        Rules rules;
        SchemaCompiler compiler(rules, document_);
        Shape free = shape;
        free.values.reset();
        const RuleId root = rules.add_rule("value");
        rules.define(root, rules.choice({compiler.shape_expr(free), rules.literal("no value")}));
        others.emplace(std::make_shared<Program>(compile_program(rules, root)));
      }
      const Automaton::State end =
          others->next(others->start(), is_scalar(value) ? JsonRules::spelled(value) : value.dump());
      if (end == Automaton::kDead || !others->accepts(end)) continue;
    }
    found.push_back(value);
  }
  return found;
}

bool SchemaCompiler::are_disjoint(NodeId a, NodeId b, int depth) {
  const std::vector<Shape> ours = document_.shapes({a}), theirs = document_.shapes({b});
  return std::ranges::all_of(ours, [&](const Shape& one) {
    return std::ranges::all_of(theirs, [&](const Shape& other) { return shapes_are_disjoint(one, other, depth); });
  });
}

bool SchemaCompiler::shapes_are_disjoint(const Shape& a, const Shape& b, int depth) {
  rules_.check_time();
  if (a.values || b.values) {
    const Shape &listed = a.values ? a : b, &other = a.values ? b : a;
    Shape both = other;
    both.values = matching_values(listed);
    std::vector<SchemaJson> common = matching_values(both);
    if (!other.values) return common.empty();
    std::erase_if(common, [&](const SchemaJson& value) {
      return std::ranges::find(*other.values, value) == other.values->end();
    });
    return common.empty();
  }
  const auto types_are_disjoint = [&](TypeBit type) {
    switch (type) {
      case kNumberType: {
        const auto is_below = [](const NumberRange& low, const NumberRange& high) {
          if (!low.most || !high.least) return false;
          const int order = compare(low.most->value, high.least->value);
          return order < 0 || (order == 0 && (low.most->exclusive || high.least->exclusive));
        };
        return is_below(a.number, b.number) || is_below(b.number, a.number);
      }
      case kStringType:
        if (is_any_text(a.string) || is_any_text(b.string)) return false;
        return dfa_of_string(rules_, a.string).intersect(rules_, dfa_of_string(rules_, b.string)).is_empty();
      case kArrayType:
        return a.array.most < b.array.least || b.array.most < a.array.least;
      case kObjectType:
        return objects_are_disjoint(a.object, b.object, depth) || objects_are_disjoint(b.object, a.object, depth);
      default:
        return false;
    }
  };
  return std::ranges::all_of(kTypes,
                             [&](TypeBit type) { return (a.types & b.types & type) == 0 || types_are_disjoint(type); });
}

// A property that `a` requires is forbidden in `b`, or required there with other values.
bool SchemaCompiler::objects_are_disjoint(const ObjectShape& a, const ObjectShape& b, int depth) {
  if (depth >= kDeepestProof) return false;
  const auto schemas_of = [&](const ObjectShape& object, const std::string& name) {
    std::vector<NodeId> all;
    for (const PropertySet& set : object.sets) {
      bool is_listed = !set.patterns.empty();
      for (const auto& [listed, schema] : set.properties) {
        if (listed != name) continue;
        all.push_back(schema);
        is_listed = true;
      }
      if (!is_listed && set.additional) all.push_back(*set.additional);
    }
    return all;
  };
  return std::ranges::any_of(a.required, [&](const std::string& name) {
    const std::vector<NodeId> theirs = schemas_of(b, name);
    if (std::ranges::any_of(theirs, [&](NodeId id) { return *document_.node(id).schema == false; })) return true;
    if (std::ranges::find(b.required, name) == b.required.end()) return false;
    const std::vector<NodeId> ours = schemas_of(a, name);
    return std::ranges::any_of(ours, [&](NodeId one) {
      return std::ranges::any_of(theirs, [&](NodeId other) { return are_disjoint(one, other, depth + 1); });
    });
  });
}

RuleId add_json_schema(Rules& rules, std::string_view schema, SchemaOptions options) {
  const SchemaJson root = parse_schema(schema);
  SchemaDocument document(root, options.closed);
  SchemaCompiler compiler(rules, document);
  document.are_disjoint = [&](NodeId a, NodeId b) { return compiler.are_disjoint(a, b); };
  return compiler.rule_of({document.root()});
}

std::vector<PropertyRule> add_schema_properties(Rules& rules, std::string_view schema, SchemaOptions options,
                                                const PropertyForm& form) {
  const SchemaJson root = parse_schema(schema);
  SchemaDocument document(root, options.closed);
  SchemaCompiler texts(rules, document, form.text), others(rules, document, form.other);
  document.are_disjoint = [&](NodeId a, NodeId b) { return others.are_disjoint(a, b); };
  std::vector<Shape> shapes = document.shapes({document.root()});
  std::erase_if(shapes, [](const Shape& shape) { return (shape.types & kObjectType) == 0; });
  if (shapes.size() != 1 || shapes[0].values)
    SchemaDocument::refuse("#", "calls of this model's form need one object with a list of properties");
  const ObjectShape& object = shapes[0].object;
  if (std::cmp_greater(object.least, object.required.size()) || object.most != kUnbounded || !object.names.empty())
    SchemaDocument::refuse(object.pointer, "is not supported in calls of this model's form");
  const PropertyTable table(rules, object);
  std::vector<PropertyRule> properties;
  for (const std::string& name : table.names()) {
    Conjunction all = table.schemas_of_name(name);
    const bool is_forbidden = std::ranges::any_of(all, [&](NodeId id) { return *document.node(id).schema == false; });
    if (is_forbidden && !table.is_required(name)) continue;
    SchemaCompiler& compiler = form.texts.contains(name) ? texts : others;
    properties.push_back({name, table.is_required(name), rules.rule(compiler.rule_of(std::move(all)))});
  }
  return properties;
}

RuleId add_json_object(Rules& rules) {
  const RuleId root = rules.add_rule("root");
  rules.define(root, JsonRules(rules).any_object());
  return root;
}

}  // namespace gabbro::text::grammar
