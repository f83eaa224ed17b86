#include "src/server/answer/tool_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "src/server/answer/output_fields.h"
#include "src/text/chat/chat_template.h"

namespace gabbro::server {
namespace {

constexpr size_t kMostTools = 512, kLongestToolName = 64;

enum class ToolChoice { kNone, kAuto, kRequired };

bool is_tool_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestToolName && std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
  });
}

// The function of a tool; null: a tool of another kind.
Json read_tool(const Json& given, const std::string& path) {
  Fields tool(given, path);
  if (tool.text("type").value_or("function") != "function") return nullptr;
  std::optional<Fields> function = tool.object("function");
  if (!function) throw ApiError(400, path + ".function: is required", "missing_required_parameter", path + ".function");
  const std::string name = function->required_text("name");
  if (!is_tool_name(name)) function->refuse("name", "expected 1 to 64 of A-Z, a-z, 0-9, _ and -");
  Json made = {{"name", name}};
  if (const auto description = function->text("description")) made["description"] = *description;
  if (function->object("parameters")) made["parameters"] = *function->find("parameters");
  if (function->boolean_or("strict", false)) made["strict"] = true;
  return made;
}

Json read_functions(Fields& fields) {
  Json functions = Json::array();
  const Json* const given = fields.array("tools", kMostTools);
  for (size_t i = 0; given != nullptr && i < given->size(); ++i) {
    Json function = read_tool((*given)[i], fmt::format("tools[{}]", i));
    if (!function.is_null()) functions.push_back(std::move(function));
  }
  return functions;
}

// Leaves only the functions with these names.
void keep_named(const Fields& fields, const std::set<std::string>& names, Json& functions) {
  Json kept = Json::array();
  for (const Json& one : functions) {
    if (names.contains(one["name"].get<std::string>())) kept.push_back(one);
  }
  for (const std::string& name : names) {
    if (std::ranges::none_of(kept, [&](const Json& one) { return one["name"] == name; }))
      fields.refuse("tool_choice", fmt::format("'{}' is not one of the tools", name));
  }
  functions = std::move(kept);
}

ToolChoice choice_named(const Fields& fields, const std::string& word) {
  if (word == "none") return ToolChoice::kNone;
  if (word == "auto") return ToolChoice::kAuto;
  if (word == "required") return ToolChoice::kRequired;
  fields.refuse("tool_choice", fmt::format("'{}' is not none, auto, required or a function", word));
}

// {"type": "allowed_tools", "allowed_tools": {"mode", "tools"}}
ToolChoice read_allowed(Fields& fields, Fields& choice, Json& functions) {
  std::optional<Fields> allowed = choice.object("allowed_tools");
  const Json* const list = allowed ? allowed->array("tools", kMostTools) : nullptr;
  if (list == nullptr) fields.refuse("tool_choice", "needs \"allowed_tools\" with \"tools\"");
  std::set<std::string> names;
  for (size_t i = 0; i < list->size(); ++i) {
    Fields tool((*list)[i], fmt::format("tool_choice.allowed_tools.tools[{}]", i));
    std::optional<Fields> function = tool.object("function");
    names.insert(function ? function->required_text("name") : tool.required_text("name"));
  }
  keep_named(fields, names, functions);
  return choice_named(fields, allowed->text("mode").value_or("auto"));
}

ToolChoice read_choice(Fields& fields, Json& functions) {
  const Json* const given = fields.find("tool_choice");
  if (given == nullptr) return ToolChoice::kAuto;
  if (given->is_string()) return choice_named(fields, given->get<std::string>());
  std::optional<Fields> choice = fields.object("tool_choice");
  if (choice->text("type").value_or("function") == "allowed_tools") return read_allowed(fields, *choice, functions);
  std::optional<Fields> function = choice->object("function");
  keep_named(fields, {function ? function->required_text("name") : choice->required_text("name")}, functions);
  return ToolChoice::kRequired;
}

}  // namespace

RequestTools read_tools(Fields& fields, const LoadedModel& model) {
  using Format = text::ToolCallFormat;
  Json functions = read_functions(fields);
  const ToolChoice choice = read_choice(fields, functions);
  const bool may_call_several = fields.boolean_or("parallel_tool_calls", true);
  if (functions.empty() && choice == ToolChoice::kRequired) fields.refuse("tool_choice", "needs tools to choose from");
  if (functions.empty() || choice == ToolChoice::kNone) return {};
  const text::ChatTemplate* const used = model.generator->chat_template(true);
  RequestTools tools;
  if (used != nullptr) tools.reading.format = text::tool_call_format(used->source());
  if (tools.reading.format == Format::kNone) {
    throw unsupported("tools",
                      "the model's chat template has no form of calls that is supported (Hermes, Qwen 2.5 and "
                      "3, and Llama 3 have one); tool_choice \"none\" answers without tools");
  }
  tools.shown = Json::array();
  bool is_strict = !may_call_several;
  for (const Json& function : functions) {
    tools.reading.names.insert(function["name"].get<std::string>());
    Json shown = function;
    shown.erase("strict");
    tools.shown.push_back({{"type", "function"}, {"function", std::move(shown)}});
    is_strict = is_strict || function.contains("strict");
  }
  if (choice != ToolChoice::kRequired && !is_strict) return tools;
  const Json description = {{"format", tools.reading.format == Format::kLlama3 ? "llama3" : "hermes"},
                            {"tools", std::move(functions)},
                            {"required", choice == ToolChoice::kRequired},
                            {"parallel", may_call_several}};
  tools.grammar = check_format("tools", {.kind = OutputFormat::Kind::kToolCalls, .source = description.dump()}, model);
  return tools;
}

}  // namespace gabbro::server
