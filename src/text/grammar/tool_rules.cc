#include "src/text/grammar/tool_rules.h"

#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/text/grammar/char_dfa.h"
#include "src/text/grammar/json/schema.h"
#include "src/text/grammar/pattern.h"

namespace gabbro::text::grammar {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kBegin = "<tool_call>";

Pattern any_text() { return repeat_pattern(any_character(), 0, kUnbounded); }

// Any text, and then `end`.
Pattern text_with(std::string_view end) {
  Pattern pattern;
  pattern.parts.push_back(any_text());
  for (const char32_t c : characters_of(std::string(end)))
    pattern.parts.push_back(
        {.kind = Pattern::Kind::kSet, .set = {{static_cast<uint32_t>(c), static_cast<uint32_t>(c)}}});
  return pattern;
}

// Texts without a part that matches.
ExprId text_without(Rules& rules, Pattern pattern) {
  pattern.parts.push_back(any_text());
  return CharDfa::of_pattern(rules, pattern).complement().expr(rules, Encoding::kUtf8);
}

// Arguments are an object: none without a schema.
ExprId arguments_of(Rules& rules, const Json& tool) {
  const auto given = tool.find("parameters");
  if (given == tool.end() || *given == Json::object()) return rules.literal("{}");
  Json schema = *given;
  if (schema.is_object() && !schema.contains("type")) schema["type"] = "object";
  try {
    return rules.rule(add_json_schema(rules, schema.dump(), {.closed = tool.value("strict", false)}));
  } catch (const Error& error) {
    throw bad_input("the parameters of the tool '{}': {}", tool.value("name", ""), error.what());
  }
}

// {"name": "f", "arguments": {...}} of one of the tools.
ExprId call_of(Rules& rules, const Json& tools, std::string_view arguments_key) {
  std::vector<ExprId> calls;
  for (const Json& tool : tools) {
    const std::string begin = R"({"name": )" + tool.at("name").dump() + ", \"" + std::string(arguments_key) + "\": ";
    calls.push_back(rules.sequence({rules.literal(begin), arguments_of(rules, tool), rules.literal("}")}));
  }
  return rules.choice(std::move(calls));
}

ExprId hermes_answer(Rules& rules, ExprId call, bool required, bool parallel) {
  const ExprId body = rules.sequence({rules.literal("\n"), call, rules.literal("\n</tool_call>")});
  const ExprId marked = rules.sequence({rules.literal(kBegin), body});
  if (required) {
    if (!parallel) return marked;
    return rules.sequence({marked, rules.repeat(rules.sequence({rules.literal("\n"), marked}), 0, kUnbounded)});
  }
  const ExprId later = rules.sequence({text_through(rules, kBegin), body});
  const ExprId text = text_without(rules, text_with(kBegin));
  if (parallel) return rules.sequence({rules.repeat(later, 0, kUnbounded), text});
  return rules.choice({text, later});
}

// One call. Without `required` also any text that does not begin like one.
ExprId llama3_answer(Rules& rules, ExprId call, bool required) {
  if (required) return call;
  const Pattern begin = parse_pattern(R"([ \n\r\t]*\{[ \n\r\t]*"name")", true);
  Pattern pattern;
  pattern.parts.push_back(begin);
  return rules.choice({call, text_without(rules, std::move(pattern))});
}

}  // namespace

ExprId text_through(Rules& rules, std::string_view end) {
  std::vector<CharDfa::State> states = CharDfa::of_pattern(rules, text_with(end)).states();
  for (CharDfa::State& state : states) {
    if (state.accepts) state.edges.clear();
  }
  return CharDfa::of_states(std::move(states)).expr(rules, Encoding::kUtf8);
}

RuleId add_tool_calls(Rules& rules, std::string_view description) {
  const Json given = Json::parse(description, nullptr, false);
  if (!given.is_object() || !given.contains("tools") || given["tools"].empty())
    throw bad_input("the description of the tools is not one");
  const bool required = given.value("required", false);
  const bool is_llama = given.value("format", "") == "llama3";
  const ExprId call = call_of(rules, given["tools"], is_llama ? "parameters" : "arguments");
  const RuleId root = rules.add_rule("root");
  rules.define(root, is_llama ? llama3_answer(rules, call, required)
                              : hermes_answer(rules, call, required, given.value("parallel", true)));
  return root;
}

}  // namespace gabbro::text::grammar
