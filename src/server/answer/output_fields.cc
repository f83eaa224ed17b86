#include "src/server/answer/output_fields.h"

#include <algorithm>
#include <iterator>

#include "src/base/error.h"
#include "src/text/grammar/matcher.h"
#include "src/text/tokenizer.h"

namespace gabbro::server {
namespace {

using Kind = OutputFormat::Kind;

// A format, and the field that asks for it.
struct AskedFormat {
  std::string field;
  OutputFormat format;
};

// A schema as an object, or as text in JSON as vLLM takes it.
OutputFormat schema_format(const Fields& fields, const std::string& name, const Json& schema, bool closed = false) {
  if (!schema.is_object() && !schema.is_boolean() && !schema.is_string())
    fields.refuse(name, fmt::format("expected a schema, got {}", kind_of(schema)));
  return {.kind = closed ? Kind::kClosedJsonSchema : Kind::kJsonSchema,
          .source = schema.is_string() ? schema.get<std::string>() : schema.dump()};
}

OutputFormat choice_format(const Fields& fields, const std::string& name, const Json& choices) {
  if (!choices.is_array()) fields.refuse(name, fmt::format("expected an array, got {}", kind_of(choices)));
  return {.kind = Kind::kChoice, .source = choices.dump()};
}

void read_response_format(Fields& fields, std::vector<AskedFormat>& asked) {
  std::optional<Fields> format = fields.object("response_format");
  if (!format) return;
  const std::string type = format->text("type").value_or("text");
  const Json* const sibling = format->find("schema");  // as llama.cpp takes it
  if (type == "json_object") {
    const OutputFormat any{.kind = Kind::kJsonObject};
    asked.push_back({"response_format", sibling != nullptr ? schema_format(*format, "schema", *sibling) : any});
  } else if (type == "json_schema") {
    std::optional<Fields> named = format->object("json_schema");
    if (named) {
      named->text("name");
      named->text("description");
    }
    const bool strict = named && named->boolean_or("strict", false);
    const Json* const schema = named ? named->find("schema") : sibling;
    if (schema == nullptr) format->refuse("json_schema", "needs a member \"schema\"");
    asked.push_back({"response_format", schema_format(*format, "json_schema.schema", *schema, strict)});
  } else if (type != "text") {
    throw unsupported("response_format", fmt::format("the type \"{}\" is not supported", type));
  }
}

// `prefix` "guided_": vLLM's older fields; empty: the members of structured_outputs.
void read_guided(Fields& fields, const std::string& prefix, const std::string& field, std::vector<AskedFormat>& asked) {
  const auto add = [&](const std::string& name, OutputFormat format) {
    asked.push_back({field.empty() ? name : field, std::move(format)});
  };
  if (const Json* const schema = fields.find(prefix + "json"))
    add(prefix + "json", schema_format(fields, prefix + "json", *schema));
  if (const auto regex = fields.text(prefix + "regex")) add(prefix + "regex", {.kind = Kind::kRegex, .source = *regex});
  if (const Json* const choices = fields.find(prefix + "choice"))
    add(prefix + "choice", choice_format(fields, prefix + "choice", *choices));
  if (const auto grammar = fields.text(prefix + "grammar"))
    add(prefix + "grammar", {.kind = Kind::kGrammar, .source = *grammar});
  if (!field.empty() && fields.boolean_or("json_object", false)) add("json_object", {.kind = Kind::kJsonObject});
}

OutputFormat compiled(std::vector<AskedFormat> asked, const LoadedModel& model) {
  if (asked.empty()) return {};
  if (asked.size() > 1) {
    throw invalid_field(asked[1].field,
                        fmt::format("the output has a format already, by {}: give one of them", asked[0].field));
  }
  return check_format(asked[0].field, std::move(asked[0].format), model);
}

// The text before the form: thoughts that the prompt opened, or that may come before calls.
void begin_format(const ChatPromptTokens& prompt, GenerateOptions& options) {
  const ThoughtForm& form = prompt.thoughts;
  OutputFormat& format = options.format;
  // Thoughts and calls are between control tokens; an answer with another form has no calls.
  format.controls = form.is_harmony ? text::tool_call_controls(text::ToolCallFormat::kHarmony) : options.shown_controls;
  const bool has_calls = format.kind == Kind::kToolCalls;
  if (form.is_harmony && !has_calls) {
    format.after = "<|channel|>final<|message|>";  // the form begins with the answer's channel
  } else if (prompt.thoughts_open || (has_calls && form.is_known)) {
    format.after = form.is_harmony ? text::soft_closing_of(form) : std::string(form.close);
    if (!prompt.thoughts_open) format.optional_begin = options.thoughts.open;
  }
}

}  // namespace

OutputFormat check_format(const std::string& field, OutputFormat format, const LoadedModel& model) {
  try {
    static_cast<void>(model.generator->tokenizer().grammars().matcher(format));
  } catch (const Error& error) {
    throw invalid_field(field, error.what());
  }
  return format;
}

OutputFormat read_output_format(Fields& fields, const LoadedModel& model) {
  std::vector<AskedFormat> asked;
  read_response_format(fields, asked);
  read_guided(fields, "guided_", "", asked);
  if (auto outputs = fields.object("structured_outputs")) {
    const size_t before = asked.size();
    read_guided(*outputs, "", "structured_outputs", asked);
    if (asked.size() == before || !outputs->unknown().empty())
      throw unsupported("structured_outputs", "only json, json_object, regex, choice and grammar are supported");
  }
  if (const auto grammar = fields.text("grammar"); grammar && !grammar->empty())
    asked.push_back({"grammar", {.kind = Kind::kGrammar, .source = *grammar}});
  if (const Json* const schema = fields.find("json_schema"))
    asked.push_back({"json_schema", schema_format(fields, "json_schema", *schema)});
  return compiled(std::move(asked), model);
}

OutputFormat read_ollama_format(Fields& fields, const LoadedModel& model) {
  const Json* const format = fields.find("format");
  if (format == nullptr || *format == "") return {};
  if (*format == "json") return {.kind = Kind::kJsonObject};
  if (!format->is_object()) fields.refuse("format", "expected \"json\" or a schema");
  return compiled({{"format", schema_format(fields, "format", *format)}}, model);
}

OutputFormat read_anthropic_format(Fields& fields, const LoadedModel& model) {
  std::vector<AskedFormat> asked;
  const auto read = [&](std::optional<Fields> format, const std::string& field) {
    if (!format) return;
    if (const std::string type = format->required_text("type"); type != "json_schema")
      throw unsupported(field, fmt::format("the type \"{}\" is not supported", type));
    const Json* const schema = format->find("schema");
    if (schema == nullptr) format->refuse("schema", "is required");
    asked.push_back({field, schema_format(*format, "schema", *schema)});
  };
  if (auto output = fields.object("output_config")) read(output->object("format"), "output_config.format");
  read(fields.object("output_format"), "output_format");
  return compiled(std::move(asked), model);
}

OutputFormat read_responses_format(Fields& fields, const LoadedModel& model) {
  std::optional<Fields> text = fields.object("text");
  if (!text) return {};
  text->text("verbosity");
  std::optional<Fields> format = text->object("format");
  if (!format) return {};
  const std::string type = format->text("type").value_or("text");
  if (type == "text") return {};
  if (type == "json_object") return compiled({{"text.format", {.kind = Kind::kJsonObject}}}, model);
  if (type != "json_schema") throw unsupported("text.format", fmt::format("the type \"{}\" is not supported", type));
  const Json* const schema = format->find("schema");
  if (schema == nullptr) format->refuse("schema", "is required");
  const bool strict = format->boolean_or("strict", false);
  return compiled({{"text.format", schema_format(*format, "schema", *schema, strict)}}, model);
}

ThoughtReading apply_output_format(OutputFormat format, const ChatPromptTokens& prompt, text::ToolCallFormat calls,
                                   GenerateOptions& options) {
  options.format = std::move(format);
  options.shown_controls = text::tool_call_controls(calls);
  const ThoughtForm& form = prompt.thoughts;
  std::ranges::move(text::thought_controls(form), std::back_inserter(options.shown_controls));
  options.thoughts = {.tokens = prompt.thought_budget,
                      .open = form.is_harmony ? "<|channel|>analysis<|message|>" : std::string(form.open),
                      .close = form.is_harmony ? "<|end|>" : std::string(form.close),
                      .closing = closing_of(form),
                      .soft_closing = calls != text::ToolCallFormat::kNone ? soft_closing_of(form) : "",
                      .is_open = prompt.thoughts_open};
  if (!options.format.is_text()) begin_format(prompt, options);
  if (form.is_harmony) return {.mode = ThoughtSplitter::Mode::kDetect, .form = form};
  if (prompt.thoughts_open) return {.mode = ThoughtSplitter::Mode::kOpen, .form = form};
  const bool may_think = options.format.is_text() || options.format.kind == Kind::kToolCalls;
  return {.mode = may_think ? ThoughtSplitter::Mode::kDetect : ThoughtSplitter::Mode::kOff, .form = form};
}

}  // namespace gabbro::server
