#include "src/text/grammar/tool_rules.h"

#include <algorithm>
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

// Texts around the name and the arguments of a call, and around several calls.
struct CallForm {
  std::string_view format;
  std::string_view before_name, after_name, after_arguments;
  std::string_view begin{}, between{}, end{};
};
constexpr CallForm kCallForms[] = {
    {"hermes", "{\"name\": \"", "\", \"arguments\": ", "}"},
    {"llama3", "{\"name\": \"", "\", \"parameters\": ", "}"},
    {"mistral_list", "{\"name\": \"", "\", \"arguments\": ", "}", "[TOOL_CALLS][", ", ", "]"},
    {"phi4", "{\"name\": \"", "\", \"arguments\": ", "}", "functools[", ", ", "]"},
    {"granite", "{\"name\": \"", "\", \"arguments\": ", "}", "<|tool_call|>[", ", ", "]"},
    {"command", "{\"tool_name\": \"", "\", \"parameters\": ", "}", "<|START_ACTION|>[", ", ", "]<|END_ACTION|>"},
    {"mistral", "[TOOL_CALLS]", "[ARGS]", ""},
    {"deepseek", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁begin｜>", "",
     "<｜tool▁calls▁end｜>"},
    {"kimi", "<|tool_call_begin|>functions.", ":0<|tool_call_argument_begin|>", "<|tool_call_end|>",
     "<|tool_calls_section_begin|>", "", "<|tool_calls_section_end|>"},
    {"harmony", "<|channel|>commentary to=functions.", " <|constrain|>json<|message|>", ""},
};

const CallForm& call_form(std::string_view format) {
  const auto found = std::ranges::find(kCallForms, format, &CallForm::format);
  if (found == std::end(kCallForms)) throw bad_input("there is no form of calls '{}'", format);
  return *found;
}

// A call of one of the tools.
ExprId call_of(Rules& rules, const Json& tools, const CallForm& form) {
  std::vector<ExprId> calls;
  for (const Json& tool : tools) {
    const std::string name = tool.at("name").dump();  // of letters that JSON does not escape, in quotes
    const std::string begin =
        std::string(form.before_name) + name.substr(1, name.size() - 2) + std::string(form.after_name);
    calls.push_back(rules.sequence(
        {rules.literal(begin), arguments_of(rules, tool), rules.literal(std::string(form.after_arguments))}));
  }
  return rules.choice(std::move(calls));
}

// One call or several, and nothing else.
ExprId required_calls(Rules& rules, ExprId call, const CallForm& form, bool parallel) {
  std::vector<ExprId> parts{rules.literal(std::string(form.begin)), call};
  const bool may_follow = parallel && form.format != "harmony";  // which ends its message with a call
  if (may_follow) {
    const ExprId next = rules.sequence({rules.literal(std::string(form.between)), call});
    parts.push_back(rules.repeat(next, 0, kUnbounded));
  }
  parts.push_back(rules.literal(std::string(form.end)));
  return rules.sequence(std::move(parts));
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
  const bool parallel = given.value("parallel", true);
  const CallForm& form = call_form(given.value("format", ""));
  const ExprId call = call_of(rules, given["tools"], form);
  const RuleId root = rules.add_rule("root");
  if (form.format == "llama3") {
    rules.define(root, llama3_answer(rules, call, required));
  } else if (form.format == "hermes") {
    rules.define(root, hermes_answer(rules, call, required, parallel));
  } else if (required) {
    rules.define(root, required_calls(rules, call, form, parallel));
  } else {
    throw bad_input("calls in the form '{}' have a grammar only where they are required", form.format);
  }
  return root;
}

}  // namespace gabbro::text::grammar
