#include "src/server/answer/tool_fields.h"

#include "src/server/answer/output_fields.h"
#include "src/text/chat/chat_template.h"

namespace gabbro::server {

namespace {

using Format = text::ToolCallFormat;

// The parameters that are texts by the function's schema.
std::set<std::string> text_parameters(const Json& function) {
  std::set<std::string> names;
  const Json schema = function.value("parameters", Json::object());
  const auto properties = schema.find("properties");
  if (properties == schema.end() || !properties->is_object()) return names;
  for (const auto& [name, property] : properties->items()) {
    if (property.is_object() && property.contains("type") && property["type"] == "string") names.insert(name);
  }
  return names;
}

// The grammar's name of the form; null: it has none.
const char* grammar_of(Format format) {
  switch (format) {
    case Format::kHermes:
      return "hermes";
    case Format::kLlama3:
      return "llama3";
    case Format::kMistralList:
      return "mistral_list";
    case Format::kMistral:
      return "mistral";
    case Format::kCommand:
      return "command";
    case Format::kPhi4:
      return "phi4";
    case Format::kGranite:
      return "granite";
    case Format::kDeepSeek:
      return "deepseek";
    case Format::kKimi:
      return "kimi";
    case Format::kHarmony:
      return "harmony";
    default:
      return nullptr;
  }
}

// In these forms a grammar holds text and calls together. The others begin calls with a control token, and a grammar
// is made of text.
bool has_free_grammar(Format format) { return format == Format::kHermes || format == Format::kLlama3; }

}  // namespace

RequestTools prepare_tools(AskedTools asked, const LoadedModel& model) {
  const bool is_required = asked.choice == ToolChoice::kRequired;
  if (asked.functions.empty() && is_required) throw invalid_field("tool_choice", "needs tools to choose from");
  if (asked.functions.empty() || asked.choice == ToolChoice::kNone) return {};
  const text::ChatTemplate* const used = model.generator->chat_template(true);
  RequestTools tools;
  CallReading& reading = tools.reading;
  if (used != nullptr) reading.format = text::tool_call_format(used->source());
  if (reading.format == Format::kNone) {
    throw unsupported("tools",
                      "the model's chat template has no form of calls that is supported; tool_choice \"none\" answers "
                      "without tools");
  }
  const char* const grammar = grammar_of(reading.format);
  if (is_required && grammar == nullptr)
    throw unsupported("tool_choice", "calls in the form of this model's chat template cannot be required");
  reading.is_single = !asked.may_call_several;
  tools.shown = Json::array();
  bool is_strict = !asked.may_call_several;
  for (const Json& function : asked.functions) {
    reading.tools.emplace(function["name"].get<std::string>(), text_parameters(function));
    Json shown = function;
    shown.erase("strict");
    tools.shown.push_back({{"type", "function"}, {"function", std::move(shown)}});
    is_strict = is_strict || function.contains("strict");
  }
  if (!is_required && !(is_strict && has_free_grammar(reading.format))) return tools;
  const Json description = {{"format", grammar},
                            {"tools", std::move(asked.functions)},
                            {"required", is_required},
                            {"parallel", asked.may_call_several}};
  tools.grammar = check_format("tools", {.kind = OutputFormat::Kind::kToolCalls, .source = description.dump()}, model);
  return tools;
}

}  // namespace gabbro::server
