#include "apps/cli/run_tools.h"

#include <algorithm>

#include "apps/cli/chat_template_argument.h"
#include "src/base/error.h"

namespace gabbro::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLongestToolName = 200;

std::string name_of_tool(const Json& function) {
  const Json name = function.value("name", Json());
  if (!name.is_string() || name.empty()) throw bad_input("\"name\" is not a text");
  const auto is_usual = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  const std::string& text = name.get_ref<const std::string&>();
  if (text.empty() || text.size() > kLongestToolName || !std::ranges::all_of(text, is_usual))
    throw bad_input("\"name\" has other characters than A-Z, a-z, 0-9, _, - and ., or too many");
  return text;
}

std::vector<std::string> command_of_tool(const Json& given) {
  const auto is_word = [](const Json& one) {
    return one.is_string() && one.get_ref<const std::string&>().find('\0') == std::string::npos;
  };
  if (!given.is_array() || given.empty() || !std::ranges::all_of(given, is_word) || given[0] == "")
    throw bad_input("\"command\" is not a list of a program and its arguments");
  return given.get<std::vector<std::string>>();
}

}  // namespace

// {"type": "function", "function": {"name", ...}}, or the inner object; "command" next to either's members.
void RunTools::add(const Json& given) {
  if (!given.is_object()) throw bad_input("it is not an object");
  if (given.value("type", Json("function")) != "function") throw bad_input("\"type\" is not \"function\"");
  const bool is_nested = given.contains("function");
  Json shown = given, function = is_nested ? given["function"] : given;
  if (!function.is_object()) throw bad_input("\"function\" is not an object");
  RunTool tool{.name = name_of_tool(function), .command = {}};
  if (find(tool.name) != nullptr) throw bad_input("there is another tool '{}'", tool.name);
  if (function.contains("parameters") && !function["parameters"].is_object())
    throw bad_input("\"parameters\" is not an object");
  if (const Json& owner = given.contains("command") ? given : function; owner.contains("command"))
    tool.command = command_of_tool(owner["command"]);
  for (const char* const member : {"command", "type"}) function.erase(member);
  shown.erase("command");
  if (!is_nested) shown = {{"type", "function"}};
  known_.emplace(tool.name, text::text_parameters(function.value("parameters", Json::object())));
  shown["function"] = std::move(function);
  shown_.push_back(std::move(shown));
  tools_.push_back(std::move(tool));
}

RunTools RunTools::read(const std::string& path) {
  RunTools tools;
  const Json list = read_json_list(path, "tools");
  if (list.empty()) throw bad_input("{}: the list of tools is empty", path);
  for (size_t i = 0; i < list.size(); ++i) {
    try {
      tools.add(list[i]);
    } catch (const Error& error) {
      throw bad_input("{}: tool {}: {}", path, i + 1, error.what());
    }
  }
  return tools;
}

bool RunTools::has_commands() const {
  return std::ranges::any_of(tools_, [](const RunTool& tool) { return !tool.command.empty(); });
}

const RunTool* RunTools::find(const std::string& name) const {
  const auto found = std::ranges::find(tools_, name, &RunTool::name);
  return found != tools_.end() ? &*found : nullptr;
}

}  // namespace gabbro::cli
