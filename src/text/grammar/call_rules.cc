#include "src/text/grammar/call_rules.h"

#include <algorithm>
#include <array>

#include "src/base/error.h"
#include "src/text/chat/calls/call_forms.h"
#include "src/text/grammar/json/schema.h"

namespace gabbro::text::grammar {
namespace {

using Json = nlohmann::ordered_json;

std::string name_of(const Json& tool) { return tool.value("name", ""); }

// `make`: from the text of the schema of a tool's arguments, which describes an object.
template <class Make>
auto with_schema(const Json& tool, const Make& make) {
  Json schema = tool.value("parameters", Json::object());
  if (schema.is_object() && !schema.contains("type")) schema["type"] = "object";
  try {
    return make(schema.dump(), SchemaOptions{.closed = tool.value("strict", false)});
  } catch (const Error& error) {
    throw bad_input("the parameters of the tool '{}': {}", name_of(tool), error.what());
  }
}

// As an object of JSON: an empty one without a schema.
ExprId json_arguments(Rules& rules, const Json& tool) {
  const auto given = tool.find("parameters");
  if (given == tool.end() || *given == Json::object()) return rules.literal("{}");
  return with_schema(tool, [&](const std::string& schema, const SchemaOptions& options) {
    return rules.rule(add_json_schema(rules, schema, options));
  });
}

// `one`: from a tool and its name.
template <class One>
ExprId any_of(Rules& rules, const Json& tools, const One& one) {
  std::vector<ExprId> calls;
  for (const Json& tool : tools) calls.push_back(one(tool, name_of(tool)));
  const RuleId rule = rules.add_rule("call");
  rules.define(rule, rules.choice(std::move(calls)));
  return rules.rule(rule);
}

ExprId listed(Rules& rules, ExprId one, std::string_view between, bool several) {
  if (!several) return one;
  const ExprId next = rules.sequence({rules.literal(between), one});
  return rules.sequence({one, rules.repeat(next, 0, kUnbounded)});
}

// The regular expression of a JSON text without its last tokens: white space may be between tokens.
std::string open_spelling(std::string_view json) {
  constexpr std::string_view kSpace = R"([ \t\r\n]*)";
  std::string regex;
  bool in_string = false;
  for (const char c : json) {
    const bool is_begin = !in_string;
    if (c == '"') in_string = !in_string;
    if (is_begin && !regex.empty()) regex += kSpace;
    regex += std::string_view("{}[]").find(c) == std::string_view::npos ? std::string(1, c) : std::string("\\") + c;
  }
  return regex;
}

CallRules object_rules(Rules& rules, const Json& tools, const ObjectMarkers& form, bool several) {
  const ExprId call = any_of(rules, tools, [&](const Json& tool, const std::string& name) {
    return rules.sequence(
        {rules.literal("{\"" + form.name_key + "\": \"" + name + "\", \"" + form.arguments_key + "\": "),
         json_arguments(rules, tool), rules.literal("}")});
  });
  if (form.is_list) {
    const ExprId list = listed(rules, call, ", ", several);
    return {.marker = form.begin,
            .rest = rules.sequence({rules.literal("["), list, rules.literal("]" + form.end)}),
            .space = form.space,
            .open_marker = form.has_open_spelling ? open_spelling(form.begin) : "",
            .is_list = true};
  }
  return {.marker = form.begin,
          .rest = rules.sequence({rules.literal(form.space), call, rules.literal(form.space + form.end)}),
          .between = "\n"};
}

// ":" and a number.
ExprId call_index(Rules& rules) {
  return rules.sequence({rules.literal(":"), rules.repeat(rules.bytes(byte_range('0', '9')), 1, 3)});
}

CallRules named_rules(Rules& rules, const Json& tools, const NamedCallForm& form) {
  const bool has_section = form.around.size() == 2;
  // The end of a message is an end of the generation, and not text.
  const std::string end = form.ends_answer ? std::string() : form.end;
  const ExprId rest = any_of(rules, tools, [&](const Json& tool, const std::string& name) {
    return rules.sequence({rules.literal(name), form.has_index ? call_index(rules) : rules.empty(),
                           rules.literal(form.name_end), json_arguments(rules, tool), rules.literal(end)});
  });
  return {.marker = form.begin + form.name_begin,
          .rest = rest,
          .before = has_section ? form.around[0] : "",
          .after = has_section ? form.around[1] : "",
          .ends_answer = form.ends_answer};
}

// Properties in sequence, each in the form of `one`, with `separator` between; those that are not required may be
// missing.
template <class One>
ExprId in_sequence(Rules& rules, const std::vector<PropertyRule>& properties, std::string_view separator,
                   const One& one) {
  // The rest from a property on: where none came before it, and where one did.
  std::array<ExprId, 2> rest = {rules.empty(), rules.empty()};
  for (auto property = properties.rbegin(); property != properties.rend(); ++property) {
    const ExprId written = one(*property);
    const std::array<ExprId, 2> later = rest;
    for (size_t came = 0; came < 2; ++came) {
      const ExprId taken = rules.sequence({rules.literal(came == 0 ? "" : separator), written, later[1]});
      const RuleId rule = rules.add_rule("parameters");
      rules.define(rule, property->required ? taken : rules.choice({taken, later[came]}));
      rest[came] = rules.rule(rule);
    }
  }
  return rest[0];
}

CallRules tag_rules(Rules& rules, const Json& tools, const TagForm& form) {
  const std::string line = form.drops_line_ends ? "\n" : "";  // around a value
  const ExprId rest = any_of(rules, tools, [&](const Json& tool, const std::string& name) {
    const PropertyForm values{.texts = text_parameters(tool.value("parameters", Json::object())),
                              .text = {.bare_strings = true, .without = form.value_end},
                              .other = {.without = form.value_end}};
    const std::vector<PropertyRule> properties =
        with_schema(tool, [&](const std::string& schema, const SchemaOptions& options) {
          return add_schema_properties(rules, schema, options, values);
        });
    const auto tagged = [&](const PropertyRule& property) {
      const bool is_text = values.texts.contains(property.name);
      const std::string& key = property.name;
      if (key.empty() || key.find_first_of("\"\n\r\t<> ") != key.npos) {
        throw bad_input(
            "the parameters of the tool '{}': the name '{}' cannot be written in calls of this model's form", name,
            key);
      }
      const std::string head = form.key_begin + key + (is_text ? form.key_end_of_text : form.key_end_of_json);
      const std::string open = form.value_begin.empty() ? "" : "\n" + form.value_begin;
      return rules.sequence(
          {rules.literal(head + open + line), property.value, rules.literal(line + form.value_end + "\n")});
    };
    return rules.sequence({rules.literal(name + form.name_end + "\n"), in_sequence(rules, properties, "", tagged),
                           rules.literal(form.end)});
  });
  CallRules made{.marker = form.begin, .rest = rest, .between = "\n"};
  if (form.section_begin.empty()) return made;
  made.before = form.section_begin + "\n";
  made.after = "\n" + form.section_end;
  if (form.wraps_each) made.between = made.after + "\n" + made.before;
  return made;
}

// In Python's form and Gemma's.
CallRules loose_rules(Rules& rules, const Json& tools, const LooseForm& form, bool several) {
  PropertyForm values;
  values.other = {
      .quote = form.quote, .bare_names = !form.python_words, .python_words = form.python_words, .without = form.quote};
  const ExprId call = any_of(rules, tools, [&](const Json& tool, const std::string& name) {
    const std::vector<PropertyRule> properties =
        with_schema(tool, [&](const std::string& schema, const SchemaOptions& options) {
          return add_schema_properties(rules, schema, options, values);
        });
    const auto assigned = [&](const PropertyRule& property) {
      if (!is_call_name(property.name)) {
        throw bad_input(
            "the parameters of the tool '{}': the name '{}' cannot be written in calls of this model's form", name,
            property.name);
      }
      return rules.sequence({rules.literal(property.name + form.assign), property.value});
    };
    return rules.sequence({rules.literal(form.name_begin + name + form.open),
                           in_sequence(rules, properties, form.separator, assigned),
                           rules.literal(std::string(1, form.close))});
  });
  if (form.between.empty()) return {.marker = form.begin, .rest = rules.sequence({call, rules.literal(form.end)})};
  const ExprId list = listed(rules, call, form.between, several);
  if (form.end.empty())  // the marker is the list's bracket, which other texts have too
    return {
        .marker = "", .rest = rules.sequence({rules.literal(form.begin), list, rules.literal("]")}), .is_list = true};
  return {.marker = form.begin,
          .rest = rules.sequence(
              {rules.literal(form.is_list ? "[" : ""), list, rules.literal((form.is_list ? "]" : "") + form.end)}),
          .is_list = true};
}

}  // namespace

CallRules add_call(Rules& rules, const Json& tools, ToolCallFormat format, bool several) {
  const CallForm form = call_form(format);
  if (const auto* const objects = std::get_if<ObjectMarkers>(&form))
    return object_rules(rules, tools, *objects, several);
  if (const auto* const named = std::get_if<NamedCallForm>(&form)) return named_rules(rules, tools, *named);
  if (const auto* const tags = std::get_if<TagForm>(&form)) return tag_rules(rules, tools, *tags);
  if (const auto* const loose = std::get_if<LooseForm>(&form)) return loose_rules(rules, tools, *loose, several);
  throw bad_input("there is no form of calls");
}

}  // namespace gabbro::text::grammar
