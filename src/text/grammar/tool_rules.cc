#include "src/text/grammar/tool_rules.h"

#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/text/chat/calls/call_forms.h"
#include "src/text/grammar/call_rules.h"
#include "src/text/grammar/char_dfa.h"
#include "src/text/grammar/format_rules.h"
#include "src/text/grammar/pattern.h"

namespace gabbro::text::grammar {
namespace {

using Json = nlohmann::ordered_json;

Pattern any_text() { return repeat_pattern(any_character(), 0, kUnbounded); }

// One call or several, and nothing else.
ExprId required_calls(Rules& rules, const CallRules& calls, bool several) {
  const ExprId call = rules.sequence({rules.literal(calls.marker + calls.space), calls.rest});
  const bool may_repeat = several && !calls.is_list && !calls.ends_answer && !calls.marker.empty();
  const ExprId next = rules.sequence({rules.literal(calls.between), call});
  return rules.sequence({rules.literal(calls.before), call,
                         may_repeat ? rules.repeat(next, 0, kUnbounded) : rules.empty(), rules.literal(calls.after)});
}

// Any text, with a call after each marker.
ExprId calls_in_text(Rules& rules, const CallRules& calls, bool several) {
  constexpr int32_t kMostSpace = 20;
  const bool is_open = !calls.open_marker.empty();
  const Pattern marker = is_open ? parse_pattern(calls.open_marker, true) : literal_pattern(calls.marker);
  const ExprId text = texts_without(rules, marker).expr(rules, Encoding::kUtf8);
  const ExprId space =
      is_open ? rules.repeat(rules.one_of({" ", "\t", "\r", "\n"}), 0, kMostSpace) : rules.literal(calls.space);
  const ExprId call = rules.sequence({text_through(rules, marker), space, calls.rest});
  if (several && !calls.ends_answer) return rules.sequence({rules.repeat(call, 0, kUnbounded), text});
  if (calls.after.empty()) return rules.choice({text, call});
  return rules.choice({text, rules.sequence({call, rules.optional(rules.literal(calls.after))})});
}

// Calls as the whole answer, or any text that does not begin like one: as `begin` matches.
ExprId calls_or_text(Rules& rules, ExprId calls, const std::string& begin) {
  Pattern pattern;
  pattern.parts.push_back(parse_pattern(begin, true));
  pattern.parts.push_back(any_text());
  return rules.choice({calls, CharDfa::of_pattern(rules, pattern).complement().expr(rules, Encoding::kUtf8)});
}

// In a form without a marker.
std::string begin_of_calls(const Json& tools, ToolCallFormat format) {
  std::string names;
  for (const Json& tool : tools) {
    for (const char c : (names.empty() ? "" : "|") + tool.value("name", ""))
      names += c == '.' ? "\\." : std::string(1, c);
  }
  if (format == ToolCallFormat::kLlama3) return R"([ \n\r\t]*(?:\{[ \n\r\t]*"name"|(?:)" + names + R"()\.call\())";
  return R"([ \n\r\t]*\[[ \n\r\t]*(?:)" + names + R"()\()";
}

}  // namespace

ExprId text_through(Rules& rules, Pattern end) {
  Pattern pattern;
  pattern.parts.push_back(any_text());
  pattern.parts.push_back(std::move(end));
  std::vector<CharDfa::State> states = CharDfa::of_pattern(rules, pattern).states();
  for (CharDfa::State& state : states) {
    if (state.accepts) state.edges.clear();
  }
  return CharDfa::of_states(std::move(states)).expr(rules, Encoding::kUtf8);
}

RuleId add_tool_calls(Rules& rules, std::string_view description) {
  const Json given = Json::parse(description, nullptr, false);
  if (!given.is_object() || !given.contains("tools") || given["tools"].empty())
    throw bad_input("the description of the tools is not one");
  const std::string name = given.value("format", "");
  const std::optional<ToolCallFormat> format = find_call_format(name);
  if (!format) throw bad_input("there is no form of calls '{}'", name);
  const Json& tools = given["tools"];
  const bool several = given.value("parallel", true);
  const CallRules calls = add_call(rules, tools, *format, several);
  const RuleId root = rules.add_rule("root");
  if (const auto answer = given.find("answer"); answer != given.end()) {
    const auto kind = static_cast<OutputFormat::Kind>(answer->value("kind", 0));
    if (kind == OutputFormat::Kind::kToolCalls) throw bad_input("an answer besides calls has no calls");
    const RuleId other = add_format(rules, {.kind = kind, .source = answer->value("source", "")});
    rules.define(root, rules.choice({required_calls(rules, calls, several), rules.rule(other)}));
  } else if (given.value("required", false)) {
    rules.define(root, required_calls(rules, calls, several));
  } else if (calls.marker.empty()) {
    rules.define(root, calls_or_text(rules, calls.rest, begin_of_calls(tools, *format)));
  } else {
    rules.define(root, calls_in_text(rules, calls, several));
  }
  return root;
}

}  // namespace gabbro::text::grammar
