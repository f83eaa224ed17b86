#include "src/text/chat/generic_tools.h"

#include <map>
#include <string>

namespace gabbro::text {
namespace {

using Json = nlohmann::ordered_json;

std::string text_member(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string dumped(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string description_of(const Json& tools) {
  std::string text = "You may call functions. Each line describes one in JSON:\n";
  for (const Json& tool : tools) text += dumped(tool.contains("function") ? tool["function"] : tool) + "\n";
  return text +
         "To call functions, answer with only this JSON object: {\"tool_calls\": [{\"name\": \"the name of a "
         "function\", \"arguments\": {\"the name of a parameter\": \"its value\"}}]}\n"
         "The next message has the results. If you need no function, answer in plain text.";
}

// An assistant's message: its text, and then its calls as an answer has them.
std::string text_with_calls(const Json& message) {
  Json calls = Json::array();
  for (const Json& call : message["tool_calls"]) {
    const Json function = call.is_object() ? call.value("function", Json::object()) : Json::object();
    calls.push_back({{"name", text_member(function, "name")},
                     {"arguments", function.is_object() ? function.value("arguments", Json::object()) : Json()}});
  }
  const std::string text = text_member(message, "content");
  return text + (text.empty() ? "" : "\n") + "{\"tool_calls\": " + dumped(calls) + "}";
}

}  // namespace

Json with_generic_tools(const Json& messages, const Json& tools) {
  Json made = Json::array();
  std::map<std::string, std::string> names;  // of calls, by their ids
  // Neighbors of one role become one message: templates of this kind may want roles that alternate.
  const auto add = [&](const char* role, const std::string& text, bool joins) {
    if (joins && !made.empty() && made.back().value("role", "") == role && made.back()["content"].is_string()) {
      made.back()["content"] = made.back()["content"].get<std::string>() + "\n\n" + text;
    } else {
      made.push_back({{"role", role}, {"content", text}});
    }
  };
  const std::string description = tools.is_null() ? std::string() : description_of(tools);
  const bool has_system = !messages.empty() && text_member(messages[0], "role") == "system";
  if (!has_system && !description.empty()) add("system", description, false);
  for (const Json& message : messages) {
    const std::string role = text_member(message, "role");
    if (role == "system" && made.empty()) {
      add("system", text_member(message, "content") + (description.empty() ? "" : "\n\n" + description), false);
    } else if (role == "tool" || role == "function") {
      const auto known = names.find(text_member(message, "tool_call_id"));
      std::string name = known != names.end() ? known->second : text_member(message, "name");
      if (name.empty()) name = text_member(message, "tool_name");  // Ollama's field
      add("user", "The result of " + (name.empty() ? "the function" : name) + ":\n" + text_member(message, "content"),
          true);
    } else if (role == "assistant" && message.contains("tool_calls") && message["tool_calls"].is_array()) {
      for (const Json& call : message["tool_calls"]) {
        if (const std::string id = text_member(call, "id"); !id.empty())
          names[id] = text_member(call.value("function", Json::object()), "name");
      }
      add("assistant", text_with_calls(message), false);
      if (const std::string thought = text_member(message, "reasoning_content"); !thought.empty())
        made.back()["reasoning_content"] = thought;
    } else if (role == "user" && message.contains("content") && message["content"].is_string()) {
      add("user", text_member(message, "content"), true);
    } else {
      made.push_back(message);
    }
  }
  return made;
}

}  // namespace gabbro::text
