#include "src/text/grammar/json/json_rules.h"

#include <cmath>

namespace gabbro::text::grammar {
namespace {

constexpr int32_t kMostBlanks = 20;  // models may write blanks without end

}  // namespace

ExprId JsonRules::space() {
  return once(space_, "space", [&] {
    return rules_.sequence({rules_.optional(rules_.literal("\n")), rules_.repeat(rules_.literal(" "), 0, kMostBlanks)});
  });
}

ExprId JsonRules::comma() {
  return once(comma_, "comma", [&] { return rules_.sequence({space(), rules_.literal(","), space()}); });
}

ExprId JsonRules::colon() {
  return once(colon_, "colon", [&] { return rules_.sequence({space(), rules_.literal(":"), space()}); });
}

ExprId JsonRules::quoted(ExprId characters) {
  return rules_.sequence({rules_.literal("\""), characters, rules_.literal("\"")});
}

ExprId JsonRules::any_string() {
  return once(any_string_, "string",
              [&] { return quoted(rules_.repeat(character(rules_, CharSet::all(), Encoding::kJson), 0, kUnbounded)); });
}

ExprId JsonRules::enclosed(const char* open, ExprId elements, const char* close) {
  return rules_.sequence({rules_.literal(open), space(), elements, rules_.literal(close)});
}

ExprId JsonRules::list(ExprId element, int32_t least, int32_t most) {
  if (most == 0 || least > most) return least > most ? rules_.nothing() : rules_.empty();
  const ExprId more = rules_.repeat(rules_.sequence({comma(), element}), std::max(least - 1, 0),
                                    most == kUnbounded ? kUnbounded : most - 1);
  const ExprId some = rules_.sequence({element, more, space()});
  return least == 0 ? rules_.optional(some) : some;
}

ExprId JsonRules::any_object() {
  return once(any_object_, "object", [&] {
    const ExprId pair = rules_.sequence({any_string(), colon(), any_value()});
    return enclosed("{", list(pair, 0, kUnbounded), "}");
  });
}

ExprId JsonRules::any_value() {
  return once(any_value_, "value", [&] {
    const ExprId self = rules_.rule(*any_value_);
    return rules_.choice({any_object(), enclosed("[", list(self, 0, kUnbounded), "]"), any_string(),
                          number_expr(rules_, {}), rules_.one_of({"true", "false", "null"})});
  });
}

std::string JsonRules::spelled(const SchemaJson& scalar) {
  if (scalar.is_number_float()) {
    const double number = scalar.get<double>();
    constexpr double kExact = 9007199254740992;  // 2^53
    if (number == std::floor(number) && std::abs(number) < kExact) return std::to_string(static_cast<int64_t>(number));
  }
  return scalar.dump();
}

ExprId JsonRules::string(std::string_view utf8) {
  return quoted(rules_.literal(spell(characters_of(utf8), Encoding::kJson)));
}

ExprId JsonRules::value(const SchemaJson& value) {
  std::vector<ExprId> parts;
  const auto separate = [&] {
    if (!parts.empty()) parts.push_back(comma());
  };
  if (value.is_array()) {
    for (const SchemaJson& one : value) {
      separate();
      parts.push_back(this->value(one));
    }
    if (!parts.empty()) parts.push_back(space());
    return enclosed("[", rules_.sequence(std::move(parts)), "]");
  }
  if (value.is_object()) {
    for (const auto& [name, one] : value.items()) {
      separate();
      parts.push_back(rules_.sequence({string(name), colon(), this->value(one)}));
    }
    if (!parts.empty()) parts.push_back(space());
    return enclosed("{", rules_.sequence(std::move(parts)), "}");
  }
  return value.is_string() ? string(value.get_ref<const std::string&>()) : rules_.literal(spelled(value));
}

}  // namespace gabbro::text::grammar
