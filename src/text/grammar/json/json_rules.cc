#include "src/text/grammar/json/json_rules.h"

#include <cmath>

#include "src/base/error.h"

namespace gabbro::text::grammar {
namespace {

constexpr int32_t kMostBlanks = 20;  // models may write blanks without end
constexpr std::string_view kBareName = R"([^:,{}\[\]()'"\s]+)";

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
  if (spelling_.bare_strings) return characters;
  const ExprId mark = rules_.literal(spelling_.quote.empty() ? "\"" : spelling_.quote);
  return rules_.sequence({mark, characters, mark});
}

ExprId JsonRules::text(std::optional<CharDfa> characters) {
  if (!spelling_.without.empty()) {
    const CharDfa allowed = texts_without(rules_, spelling_.without);
    characters = characters ? characters->intersect(rules_, allowed) : allowed;
  }
  if (!characters) characters = CharDfa::of_length(rules_, 0, kUnbounded);
  const bool has_escapes = spelling_.quote.empty() && !spelling_.bare_strings;
  return quoted(characters->expr(rules_, has_escapes ? Encoding::kJson : Encoding::kUtf8));
}

ExprId JsonRules::any_string() {
  return once(any_string_, "string", [&] {
    if (!spelling_.has_json_strings()) return text(std::nullopt);
    return quoted(rules_.repeat(character(rules_, CharSet::all(), Encoding::kJson), 0, kUnbounded));
  });
}

ExprId JsonRules::names(std::optional<CharDfa> characters) {
  if (!spelling_.bare_names && !characters) return any_string();
  if (!spelling_.bare_names) return text(std::move(characters));
  if (!characters && any_name_) return rules_.rule(*any_name_);
  CharDfa all = CharDfa::of_pattern(rules_, parse_pattern(kBareName, true));
  if (!spelling_.without.empty()) all = all.intersect(rules_, texts_without(rules_, spelling_.without));
  if (!characters) return once(any_name_, "name", [&] { return all.expr(rules_, Encoding::kUtf8); });
  return all.intersect(rules_, *characters).expr(rules_, Encoding::kUtf8);
}

ExprId JsonRules::boolean() {
  return spelling_.python_words ? rules_.one_of({"True", "False"}) : rules_.one_of({"true", "false"});
}

ExprId JsonRules::null() { return rules_.literal(spelling_.python_words ? "None" : "null"); }

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
    const ExprId pair = rules_.sequence({names(std::nullopt), colon(), any_value()});
    return enclosed("{", list(pair, 0, kUnbounded), "}");
  });
}

ExprId JsonRules::any_value() {
  return once(any_value_, "value", [&] {
    const ExprId self = rules_.rule(*any_value_);
    return rules_.choice({any_object(), enclosed("[", list(self, 0, kUnbounded), "]"), any_string(),
                          number_expr(rules_, {}), boolean(), null()});
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
  if (!spelling_.without.empty() && utf8.find(spelling_.without) != utf8.npos) return rules_.nothing();
  const bool has_escapes = spelling_.quote.empty() && !spelling_.bare_strings;
  return quoted(rules_.literal(has_escapes ? spell(characters_of(utf8), Encoding::kJson) : std::string(utf8)));
}

ExprId JsonRules::name(std::string_view utf8) {
  if (!spelling_.bare_names) return string(utf8);
  const bool has_quote = !spelling_.without.empty() && utf8.find(spelling_.without) != utf8.npos;
  if (has_quote || !CharDfa::of_pattern(rules_, parse_pattern(kBareName, true)).accepts(characters_of(utf8)))
    throw bad_input("the name '{}' cannot be written in calls of this model's form", utf8);
  return rules_.literal(utf8);
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
      parts.push_back(rules_.sequence({this->name(name), colon(), this->value(one)}));
    }
    if (!parts.empty()) parts.push_back(space());
    return enclosed("{", rules_.sequence(std::move(parts)), "}");
  }
  if (value.is_string()) return string(value.get_ref<const std::string&>());
  if (!spelling_.python_words || value.is_number()) return rules_.literal(spelled(value));
  return value.is_null() ? null() : rules_.literal(value.get<bool>() ? "True" : "False");
}

}  // namespace gabbro::text::grammar
