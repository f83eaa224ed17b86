#include "src/text/grammar/pattern.h"

#include "src/text/grammar/pattern_parser.h"

namespace gabbro::text::grammar {
namespace {

// The first ^ or $ in the tree; null: there is none.
const Pattern* find_anchor(const Pattern& pattern) {
  if (pattern.kind == Pattern::Kind::kBegin || pattern.kind == Pattern::Kind::kEnd) return &pattern;
  for (const Pattern& part : pattern.parts) {
    if (const Pattern* const found = find_anchor(part)) return found;
  }
  return nullptr;
}

// Puts "any text" before alternatives without ^ and after those without $, and removes both.
Pattern resolve_anchors(Pattern pattern, bool whole, std::string_view regex) {
  if (pattern.kind == Pattern::Kind::kChoice) {
    for (Pattern& part : pattern.parts) part = resolve_anchors(std::move(part), whole, regex);
    return pattern;
  }
  if (pattern.kind != Pattern::Kind::kSequence) {
    Pattern sequence;
    sequence.parts.push_back(std::move(pattern));
    pattern = std::move(sequence);
  }
  std::vector<Pattern>& parts = pattern.parts;
  if (parts.size() == 1 && find_anchor(parts.front()) != nullptr &&
      (parts.front().kind == Pattern::Kind::kChoice || parts.front().kind == Pattern::Kind::kSequence)) {
    Pattern only = std::move(parts.front());
    return resolve_anchors(std::move(only), whole, regex);
  }
  bool begins = whole, ends = whole;
  while (!parts.empty() && parts.front().kind == Pattern::Kind::kBegin) {
    parts.erase(parts.begin());
    begins = true;
  }
  while (!parts.empty() && parts.back().kind == Pattern::Kind::kEnd) {
    parts.pop_back();
    ends = true;
  }
  if (const Pattern* const anchor = find_anchor(pattern))
    refuse_pattern(regex, anchor->position, "^ and $ are supported only at the ends");
  const Pattern any = repeat_pattern(any_character(), 0, kUnbounded);
  if (!begins) parts.insert(parts.begin(), any);
  if (!ends) parts.push_back(any);
  return pattern;
}

}  // namespace

Pattern any_character() { return {.kind = Pattern::Kind::kSet, .set = CharSet::all()}; }

Pattern literal_pattern(std::string_view utf8) {
  Pattern pattern;
  for (const char32_t c : characters_of(utf8)) {
    const auto code = static_cast<uint32_t>(c);
    pattern.parts.push_back({.kind = Pattern::Kind::kSet, .set = {{code, code}}});
  }
  return pattern;
}

Pattern repeat_pattern(Pattern part, int32_t least, int32_t most) {
  Pattern repeat{.kind = Pattern::Kind::kRepeat, .least = least, .most = most};
  repeat.parts.push_back(std::move(part));
  return repeat;
}

Pattern parse_pattern(std::string_view regex, bool whole) {
  return resolve_anchors(PatternParser(regex).parse(), whole, regex);
}

ExprId pattern_expr(Rules& rules, const Pattern& pattern, Encoding encoding) {
  std::vector<ExprId> parts;
  for (const Pattern& part : pattern.parts) parts.push_back(pattern_expr(rules, part, encoding));
  switch (pattern.kind) {
    case Pattern::Kind::kSet:
      return character(rules, pattern.set, encoding);
    case Pattern::Kind::kChoice:
      return rules.choice(std::move(parts));
    case Pattern::Kind::kRepeat:
      return rules.repeat(parts.front(), pattern.least, pattern.most);
    default:
      return rules.sequence(std::move(parts));
  }
}

}  // namespace gabbro::text::grammar
