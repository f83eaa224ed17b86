// From the description of an output format to the program of its grammar.
#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/text/grammar/format_rules.h"
#include "src/text/grammar/gbnf.h"
#include "src/text/grammar/json/schema.h"
#include "src/text/grammar/matcher.h"
#include "src/text/grammar/pattern.h"
#include "src/text/grammar/tool_rules.h"

namespace gabbro::text::grammar {
namespace {

constexpr size_t kMostSourceBytes = size_t{4} << 20;

ExprId choice_of_texts(Rules& rules, const std::string& source) {
  const auto list = nlohmann::json::parse(source, nullptr, false);
  if (!list.is_array() || list.empty()) throw bad_input("the choices are not a list of strings");
  std::vector<std::string> texts;
  for (const auto& one : list) {
    if (!one.is_string() || one.get_ref<const std::string&>().empty())
      throw bad_input("the choices are not a list of strings that are not empty");
    texts.push_back(one.get<std::string>());
  }
  return rules.one_of(std::move(texts));
}

// Any text up to the first occurrence of format.after, line breaks, and the body.
RuleId add_beginning(Rules& rules, const OutputFormat& format, RuleId body) {
  const RuleId root = rules.add_rule("root");
  const ExprId first =
      rules.sequence({rules.literal(format.optional_begin), text_through(rules, literal_pattern(format.after)),
                      rules.repeat(rules.literal("\n"), 0, 2)});
  rules.define(root, rules.sequence({format.optional_begin.empty() ? first : rules.optional(first), rules.rule(body)}));
  return root;
}

}  // namespace

RuleId add_format(Rules& rules, const OutputFormat& format) {
  using Kind = OutputFormat::Kind;
  const auto root_of = [&](const auto& make) {
    const RuleId root = rules.add_rule("root");
    rules.define(root, make());
    return root;
  };
  switch (format.kind) {
    case Kind::kJsonObject:
      return add_json_object(rules);
    case Kind::kJsonSchema:
    case Kind::kClosedJsonSchema:
      return add_json_schema(rules, format.source, {.closed = format.kind == Kind::kClosedJsonSchema});
    case Kind::kRegex:
      return root_of([&] { return pattern_expr(rules, parse_pattern(format.source, true), Encoding::kUtf8); });
    case Kind::kGrammar:
      return parse_gbnf(rules, format.source);
    case Kind::kChoice:
      return root_of([&] { return choice_of_texts(rules, format.source); });
    case Kind::kToolCalls:
      return add_tool_calls(rules, format.source);
    case Kind::kText:
      break;
  }
  throw bad_input("the output format has no grammar");
}

std::shared_ptr<const Program> compile_format(const OutputFormat& format) {
  if (format.source.size() > kMostSourceBytes)
    throw bad_input("the grammar has {} bytes, more than {}", format.source.size(), kMostSourceBytes);
  Rules rules;
  RuleId root = add_format(rules, format);
  if (!format.after.empty()) root = add_beginning(rules, format, root);
  return std::make_shared<const Program>(compile_program(rules, root));
}

}  // namespace gabbro::text::grammar
