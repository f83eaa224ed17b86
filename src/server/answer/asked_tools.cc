#include "src/server/answer/asked_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace gabbro::server {
namespace {

constexpr size_t kMostTools = 512;

// The names of a dialect.
struct FunctionForm {
  const char* parameters;
  size_t longest_name;
};
constexpr FunctionForm kOpenAiForm{"parameters", 64}, kAnthropicForm{"input_schema", 128};

bool is_tool_name(std::string_view name, size_t longest) {
  return !name.empty() && name.size() <= longest && std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
  });
}

Json read_function(Fields& function, const FunctionForm& form) {
  const std::string name = function.required_text("name");
  if (!is_tool_name(name, form.longest_name))
    function.refuse("name", fmt::format("expected 1 to {} of A-Z, a-z, 0-9, _ and -", form.longest_name));
  Json made = {{"name", name}};
  if (const auto description = function.text("description")) made["description"] = *description;
  if (function.object(form.parameters)) made["parameters"] = *function.find(form.parameters);
  if (function.boolean_or("strict", false)) made["strict"] = true;
  return made;
}

// `read`: the function of a tool, or null for a tool of another kind.
template <class Read>
Json read_functions(Fields& fields, const Read& read) {
  Json functions = Json::array();
  const Json* const given = fields.array("tools", kMostTools);
  for (size_t i = 0; given != nullptr && i < given->size(); ++i) {
    Fields tool((*given)[i], fmt::format("tools[{}]", i));
    Json function = read(tool);
    if (!function.is_null()) functions.push_back(std::move(function));
  }
  return functions;
}

Json read_nested_function(Fields& tool) {
  if (tool.text("type").value_or("function") != "function") return nullptr;
  std::optional<Fields> function = tool.object("function");
  if (!function) {
    const std::string path = tool.path_of("function");
    throw ApiError(400, path + ": is required", "missing_required_parameter", path);
  }
  return read_function(*function, kOpenAiForm);
}

// A tool whose input is a text, as a function: the model is told of a grammar, but is free.
Json read_custom_tool(Fields& tool) {
  Json function = read_function(tool, kOpenAiForm);
  if (auto format = tool.object("format"); format && format->text("type").value_or("text") == "grammar") {
    const std::string syntax = format->required_text("syntax"), definition = format->required_text("definition");
    const std::string before = function.value("description", "");
    function["description"] = fmt::format("{}{}The input obeys this grammar ({}):\n{}", before,
                                          before.empty() ? "" : "\n", syntax, definition);
  }
  function["parameters"] = {
      {"type", "object"}, {"properties", {{"input", {{"type", "string"}}}}}, {"required", Json::array({"input"})}};
  return function;
}

Json read_flat_function(Fields& tool, std::set<std::string>& custom) {
  const std::string type = tool.required_text("type");
  if (type == "function") return read_function(tool, kOpenAiForm);
  if (type != "custom") return nullptr;
  Json function = read_custom_tool(tool);
  custom.insert(function["name"].get<std::string>());
  return function;
}

// Tools of the server have a type with a date.
Json read_anthropic_function(Fields& tool) {
  if (tool.text("type").value_or("custom") != "custom") return nullptr;
  if (!tool.has("input_schema")) {
    const std::string path = tool.path_of("input_schema");
    throw ApiError(400, path + ": is required", "missing_required_parameter", path);
  }
  return read_function(tool, kAnthropicForm);
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

// {"type": "allowed_tools", "allowed_tools": {"mode", "tools"}}; in Responses without the inner object.
ToolChoice read_allowed(Fields& fields, Fields& choice, Json& functions) {
  std::optional<Fields> nested = choice.object("allowed_tools");
  Fields& allowed = nested ? *nested : choice;
  const Json* const list = allowed.array("tools", kMostTools);
  if (list == nullptr) fields.refuse("tool_choice", "needs \"allowed_tools\" with \"tools\"");
  std::set<std::string> names;
  for (size_t i = 0; i < list->size(); ++i) {
    Fields tool((*list)[i], fmt::format("tool_choice.allowed_tools.tools[{}]", i));
    std::optional<Fields> function = tool.object("function");
    names.insert(function ? function->required_text("name") : tool.required_text("name"));
  }
  keep_named(fields, names, functions);
  return choice_named(fields, allowed.text("mode").value_or("auto"));
}

ToolChoice read_openai_choice(Fields& fields, Json& functions) {
  const Json* const given = fields.find("tool_choice");
  if (given == nullptr) return ToolChoice::kAuto;
  if (given->is_string()) return choice_named(fields, given->get<std::string>());
  std::optional<Fields> choice = fields.object("tool_choice");
  if (choice->text("type").value_or("function") == "allowed_tools") return read_allowed(fields, *choice, functions);
  std::optional<Fields> function = choice->object("function");
  keep_named(fields, {function ? function->required_text("name") : choice->required_text("name")}, functions);
  return ToolChoice::kRequired;
}

AskedTools read_openai_fields(Fields& fields, Json functions) {
  AskedTools asked{.functions = std::move(functions)};
  asked.choice = read_openai_choice(fields, asked.functions);
  asked.may_call_several = fields.boolean_or("parallel_tool_calls", true);
  return asked;
}

// The old form: functions[], function_call; one call at most.
AskedTools read_old_functions(Fields& fields, const Json& given) {
  AskedTools asked{.may_call_several = false, .is_old_form = true};
  for (size_t i = 0; i < given.size(); ++i) {
    Fields function(given[i], fmt::format("functions[{}]", i));
    asked.functions.push_back(read_function(function, kOpenAiForm));
  }
  const Json* const choice = fields.find("function_call");
  if (choice == nullptr || *choice == "auto") return asked;
  if (*choice == "none") {
    asked.choice = ToolChoice::kNone;
    return asked;
  }
  std::optional<Fields> named = fields.object("function_call");
  keep_named(fields, {named->required_text("name")}, asked.functions);
  asked.choice = ToolChoice::kRequired;
  return asked;
}

}  // namespace

AskedTools read_openai_tools(Fields& fields) {
  if (const Json* const old = fields.array("functions", kMostTools); old != nullptr && !old->empty()) {
    if (const Json* const tools = fields.find("tools"); tools != nullptr && !tools->empty())
      fields.refuse("functions", "does not go with \"tools\", which replaces it");
    return read_old_functions(fields, *old);
  }
  return read_openai_fields(fields, read_functions(fields, read_nested_function));
}

AskedTools read_responses_tools(Fields& fields) {
  std::set<std::string> custom;
  AskedTools asked = read_openai_fields(
      fields, read_functions(fields, [&](Fields& tool) { return read_flat_function(tool, custom); }));
  asked.custom = std::move(custom);
  return asked;
}

AskedTools read_ollama_tools(Fields& fields) { return {.functions = read_functions(fields, read_nested_function)}; }

AskedTools read_anthropic_tools(Fields& fields) {
  AskedTools asked{.functions = read_functions(fields, read_anthropic_function)};
  std::optional<Fields> choice = fields.object("tool_choice");
  if (!choice) return asked;
  const std::string type = choice->required_text("type");
  asked.may_call_several = !choice->boolean_or("disable_parallel_tool_use", false);
  if (type == "none") {
    asked.choice = ToolChoice::kNone;
  } else if (type == "any" || type == "tool") {
    asked.choice = ToolChoice::kRequired;
    if (type == "tool") keep_named(fields, {choice->required_text("name")}, asked.functions);
  } else if (type != "auto") {
    choice->refuse("type", fmt::format("'{}' is not auto, any, tool or none", type));
  }
  return asked;
}

}  // namespace gabbro::server
