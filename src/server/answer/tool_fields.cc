#include "src/server/answer/tool_fields.h"

#include "src/server/answer/output_fields.h"
#include "src/text/chat/calls/call_forms.h"
#include "src/text/chat/chat_template.h"

namespace gabbro::server {
namespace {

// Whether the grammar can be made: one that only limits the number of calls is left out otherwise.
bool is_supported(const OutputFormat& format, const LoadedModel& model) {
  try {
    static_cast<void>(check_format("tools", format, model));
    return true;
  } catch (const ApiError&) {
    return false;
  }
}

}  // namespace

RequestTools prepare_tools(AskedTools asked, const LoadedModel& model) {
  const bool is_required = asked.choice == ToolChoice::kRequired;
  if (asked.functions.empty() && is_required) throw invalid_field("tool_choice", "needs tools to choose from");
  if (asked.functions.empty() || asked.choice == ToolChoice::kNone) return {};
  const text::ChatTemplate* const used = model.generator->chat_template(true);
  RequestTools tools;
  CallReading& reading = tools.reading;
  if (used != nullptr) reading.format = text::tool_call_format(used->source());
  if (reading.format == text::ToolCallFormat::kNone) reading.format = text::ToolCallFormat::kGeneric;
  reading.is_single = !asked.may_call_several;
  tools.shown = Json::array();
  bool is_strict = false;
  for (const Json& function : asked.functions) {
    reading.tools.emplace(function["name"].get<std::string>(),
                          text::text_parameters(function.value("parameters", Json::object())));
    Json shown = function;
    shown.erase("strict");
    tools.shown.push_back({{"type", "function"}, {"function", std::move(shown)}});
    is_strict = is_strict || function.contains("strict");
  }
  tools.custom = std::move(asked.custom);
  tools.is_old_form = asked.is_old_form;
  tools.description = {{"format", text::call_format_name(reading.format)},
                       {"tools", std::move(asked.functions)},
                       {"required", is_required},
                       {"parallel", asked.may_call_several}};
  if (!is_required && !is_strict && asked.may_call_several) return tools;
  const OutputFormat grammar{.kind = OutputFormat::Kind::kToolCalls, .source = tools.description.dump()};
  if (is_required || is_strict || is_supported(grammar, model)) tools.grammar = check_format("tools", grammar, model);
  return tools;
}

OutputFormat answer_format(OutputFormat format, const RequestTools& tools, const LoadedModel& model) {
  if (tools.shown.is_null()) return format;
  if (format.is_text() || tools.description.value("required", false)) return tools.grammar;
  Json description = tools.description;
  description["answer"] = {{"kind", static_cast<int>(format.kind)}, {"source", std::move(format.source)}};
  return check_format("tools", {.kind = OutputFormat::Kind::kToolCalls, .source = description.dump()}, model);
}

}  // namespace gabbro::server
