// Strings of a schema: patterns, formats and lengths.
#include <algorithm>

#include "src/base/error.h"
#include "src/text/grammar/json/formats.h"
#include "src/text/grammar/json/schema_compiler.h"

namespace gabbro::text::grammar {
namespace {

// The lengths of an automaton's texts: the shortest and the longest; kUnbounded: there is no longest.
std::pair<int32_t, int32_t> lengths_of(const CharDfa& dfa) {
  const std::vector<CharDfa::State>& states = dfa.states();
  std::vector<bool> level(states.size());
  level[0] = true;
  int32_t shortest = -1, longest = 0;
  for (int32_t length = 0; std::cmp_less_equal(length, states.size()); ++length) {
    std::vector<bool> next(states.size());
    bool any = false;
    for (size_t i = 0; i < states.size(); ++i) {
      if (!level[i]) continue;
      any = true;
      if (states[i].accepts) {
        if (shortest < 0) shortest = length;
        longest = length;
      }
      for (const CharDfa::Edge& edge : states[i].edges) next[edge.to] = true;
    }
    if (!any) return {shortest, longest};
    level = std::move(next);
  }
  return {shortest, kUnbounded};
}

Pattern format_of(const Sourced& format) {
  const std::optional<std::string_view> regex = format_pattern(format.text);
  if (!regex) SchemaDocument::refuse(format.pointer, fmt::format("the format '{}' is not supported", format.text));
  return parse_pattern(*regex, true);
}

Pattern pattern_of(const Sourced& pattern) {
  try {
    return parse_pattern(pattern.text, false);
  } catch (const Error& error) {
    SchemaDocument::refuse(pattern.pointer, error.what());
  }
}

}  // namespace

bool is_any_text(const StringShape& s) {
  return s.least == 0 && s.most == kUnbounded && s.patterns.empty() && s.formats.empty();
}

CharDfa dfa_of_string(const Rules& rules, const StringShape& string) try {
  std::optional<CharDfa> all;
  const auto join = [&](const CharDfa& dfa) { all = all ? all->intersect(rules, dfa) : dfa; };
  for (const Sourced& pattern : string.patterns) join(CharDfa::of_pattern(rules, pattern_of(pattern)));
  for (const Sourced& format : string.formats) join(CharDfa::of_pattern(rules, format_of(format)));
  if (string.least > string.most) return {};
  if (!all) return CharDfa::of_length(rules, string.least, string.most);
  if (all->is_empty()) return *all;
  // Bounds that the pattern keeps anyway would only make the automaton larger.
  const auto [shortest, longest] = lengths_of(*all);
  const int32_t least = shortest >= string.least ? 0 : string.least,
                most = longest <= string.most ? kUnbounded : string.most;
  if (least > 0 || most != kUnbounded) join(CharDfa::of_length(rules, least, most));
  return *all;
} catch (const Error& error) {
  if (std::string_view(error.what()).starts_with("JSON schema")) throw;
  SchemaDocument::refuse(string.pointer, error.what());
}

ExprId SchemaCompiler::string(const StringShape& string) {
  if (is_any_text(string)) return json_.any_string();
  if (!json_.spelling().has_json_strings()) return json_.text(dfa_of_string(rules_, string));
  if (string.patterns.empty() && string.formats.empty()) {
    const ExprId character_expr = character(rules_, CharSet::all(), Encoding::kJson);
    return json_.quoted(rules_.repeat(character_expr, string.least, string.most));
  }
  const bool has_length = string.least > 0 || string.most != kUnbounded;
  if (!has_length && string.patterns.size() + string.formats.size() == 1) {
    const Pattern pattern = string.patterns.empty() ? format_of(string.formats[0]) : pattern_of(string.patterns[0]);
    return json_.quoted(pattern_expr(rules_, pattern, Encoding::kJson));
  }
  return json_.quoted(dfa_of_string(rules_, string).expr(rules_, Encoding::kJson));
}

}  // namespace gabbro::text::grammar
