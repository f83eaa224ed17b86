#include "src/text/chat/ollama_template.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "src/base/error.h"
#include "src/text/chat/chat_roles.h"
#include "src/text/chat/go_template/execute.h"

namespace gabbro::text {
namespace {

using go::MarkedText;
using go::Object;
using go::Value;
using nlohmann::ordered_json;

struct Message {
  std::string role;
  MarkedText content;
  const ordered_json* source = nullptr;
};

std::string text_of(const ordered_json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// A string, or the text parts of a list.
std::string content_of(const ordered_json& message) {
  const auto found = message.find("content");
  if (found == message.end() || found->is_null()) return "";
  if (found->is_string()) return found->get<std::string>();
  std::string text;
  for (const ordered_json& part : *found) {
    if (part.is_object()) text += text_of(part, "text");
  }
  return text;
}

// Messages of one role that follow each other are merged, but not tool messages; and the text of all system messages.
std::vector<Message> collate(const ordered_json& messages, MarkedText& system) {
  std::vector<Message> collated;
  bool has_system = false;
  for (size_t i = 0; i < messages.size(); ++i) {
    const ordered_json& message = messages[i];
    if (!message.is_object()) throw bad_input("template: message {} is not an object", i + 1);
    const std::string role = text_of(message, "role");
    const MarkedText content = MarkedText::input(content_of(message), static_cast<int32_t>(i));
    if (role == "system") {
      if (std::exchange(has_system, true)) system.append("\n\n");
      system.append(content);
    }
    if (!collated.empty() && collated.back().role == role && role != "tool") {
      if (content.empty()) continue;
      collated.back().content.append("\n\n");
      collated.back().content.append(content);
    } else {
      collated.push_back({role, content, &message});
    }
  }
  return collated;
}

Value input(const std::string& text) { return MarkedText::input(text); }

// Any JSON, as Go decodes it into `any`: maps are sorted.
Value json_value(const ordered_json& json, int depth = 0) {
  if (depth > 50) throw bad_input("template: tools nest too deeply");
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return input(json.get<std::string>());
  if (json.is_array()) {
    auto list = std::make_shared<go::List>();
    for (const ordered_json& entry : json) list->push_back(json_value(entry, depth + 1));
    return std::shared_ptr<const go::List>(std::move(list));
  }
  if (!json.is_object()) return {};
  auto map = std::make_shared<Object>();
  std::vector<std::pair<std::string, const ordered_json*>> entries;
  for (const auto& [key, value] : json.items()) entries.emplace_back(key, &value);
  std::ranges::sort(entries);
  for (const auto& [key, value] : entries) map->add(key, json_value(*value, depth + 1));
  return std::shared_ptr<const Object>(std::move(map));
}

// A struct of api/types.go that is printed as JSON: its fields in their order; those that are left out where they are
// empty have a '?'.
struct FieldOf {
  const char* name;
  const char* json_name;
};

Value property_of(const ordered_json& json) {
  constexpr FieldOf kFields[] = {{"AnyOf", "anyOf"},      {"Type", "type"},
                                 {"Items", "items"},      {"Description", "description"},
                                 {"Enum", "enum"},        {"Properties", "properties"},
                                 {"Required", "required"}};
  auto made = std::make_shared<Object>();
  made->is_struct = made->is_json = true;
  for (const auto& [name, json_name] : kFields) {
    const auto found = json.is_object() ? json.find(json_name) : json.end();
    const bool is_there = json.is_object() && found != json.end() && !found->empty();
    made->add(name, is_there ? json_name : "", is_there ? json_value(*found) : Value());
  }
  return std::shared_ptr<const Object>(std::move(made));
}

Value parameters_of(const ordered_json& json) {
  auto made = std::make_shared<Object>();
  made->is_struct = made->is_json = true;
  const auto field = [&](const char* name) {
    return json.is_object() && json.contains(name) ? json[name] : ordered_json();
  };
  made->add("Type", "type", input(json.is_object() ? text_of(json, "type") : ""));
  for (const auto& [name, json_name] : {FieldOf{"Defs", "$defs"}, {"Items", "items"}, {"Required", "required"}}) {
    const ordered_json value = field(json_name);
    made->add(name, value.empty() ? "" : json_name, json_value(value));
  }
  auto properties = std::make_shared<Object>();
  std::map<std::string, ordered_json> sorted;  // as Go's maps are printed
  const ordered_json given = field("properties");
  for (const auto& [name, property] : given.items()) sorted.emplace(name, property);
  for (const auto& [name, property] : sorted) properties->add(name, property_of(property));
  made->add("Properties", "properties", std::shared_ptr<const Object>(std::move(properties)));
  return std::shared_ptr<const Object>(std::move(made));
}

Value tools_of(const ordered_json& tools) {
  auto list = std::make_shared<go::List>();
  for (const ordered_json& tool : tools) {
    const ordered_json function =
        tool.is_object() && tool.contains("function") ? tool["function"] : ordered_json::object();
    auto described = std::make_shared<Object>();
    described->is_struct = described->is_json = true;
    described->add("Name", "name", input(text_of(function, "name")));
    const std::string description = text_of(function, "description");
    described->add("Description", description.empty() ? "" : "description", input(description));
    described->add("Parameters", "parameters",
                   parameters_of(function.contains("parameters") ? function["parameters"] : ordered_json()));
    auto made = std::make_shared<Object>();
    made->is_struct = made->is_json = true;
    made->add("Type", "type", input(tool.is_object() ? text_of(tool, "type") : ""));
    made->add("Items", "", {});
    made->add("Function", "function", std::shared_ptr<const Object>(std::move(described)));
    list->push_back(std::shared_ptr<const Object>(std::move(made)));
  }
  Value value{std::shared_ptr<const go::List>(std::move(list))};
  value.is_json_list = true;
  return value;
}

// Arguments are an object, or as OpenAI's API has them the text of one.
Value arguments_of(const ordered_json& function) {
  ordered_json arguments = function.contains("arguments") ? function["arguments"] : ordered_json::object();
  if (arguments.is_string()) arguments = ordered_json::parse(arguments.get<std::string>(), nullptr, false);
  auto made = std::make_shared<Object>();
  made->is_json = true;
  if (arguments.is_object()) {
    for (const auto& [name, value] : arguments.items()) made->add(name, json_value(value));
  }
  return std::shared_ptr<const Object>(std::move(made));
}

Value calls_of(const ordered_json& message) {
  auto list = std::make_shared<go::List>();
  const auto calls = message.find("tool_calls");
  const ordered_json none = ordered_json::array();
  for (const ordered_json& call : calls != message.end() && calls->is_array() ? *calls : none) {
    const ordered_json function =
        call.is_object() && call.contains("function") ? call["function"] : ordered_json::object();
    auto named = std::make_shared<Object>();
    named->is_struct = named->is_json = true;
    named->add("Index", "", static_cast<int64_t>(list->size()));
    named->add("Name", "name", input(text_of(function, "name")));
    named->add("Arguments", "arguments", arguments_of(function));
    auto made = std::make_shared<Object>();
    made->is_struct = made->is_json = true;
    made->add("ID", "", input(call.is_object() ? text_of(call, "id") : ""));
    made->add("Function", "function", std::shared_ptr<const Object>(std::move(named)));
    list->push_back(std::shared_ptr<const Object>(std::move(made)));
  }
  return std::shared_ptr<const go::List>(std::move(list));
}

Value message_value(const Message& message) {
  auto made = std::make_shared<Object>();
  made->is_struct = true;
  made->add("Role", "role", is_common_role(message.role) ? MarkedText(message.role) : MarkedText::input(message.role));
  made->add("Content", "content", message.content);
  std::string thinking = text_of(*message.source, "thinking");
  if (thinking.empty()) thinking = text_of(*message.source, "reasoning_content");
  made->add("Thinking", thinking.empty() ? "" : "thinking", input(thinking));
  made->add("Images", "", {});
  made->add("ToolCalls", "tool_calls", calls_of(*message.source));
  const std::string tool = text_of(*message.source, "tool_name");
  made->add("ToolName", "tool_name", input(tool.empty() ? text_of(*message.source, "name") : tool));
  made->add("ToolCallID", "tool_call_id", input(text_of(*message.source, "tool_call_id")));
  return std::shared_ptr<const Object>(std::move(made));
}

// Thinking is switched on or off for templates that show thoughts, and not set for others.
Value data_of(std::initializer_list<std::pair<const char*, Value>> fields, bool thinks, bool shows_thoughts) {
  auto data = std::make_shared<Object>();
  for (const auto& [name, value] : fields) data->add(name, value);
  data->add("Think", thinks && shows_thoughts);
  data->add("ThinkLevel", "");
  data->add("IsThinkSet", shows_thoughts);
  return std::shared_ptr<const Object>(std::move(data));
}

}  // namespace

OllamaTemplate::OllamaTemplate(const std::string& source) : tree_(go::parse(source)), names_(go::identifiers(tree_)) {
  if (uses("messages") || uses("response")) return;
  // {{ .Response }} at the end, as Ollama adds it.
  go::Node response{.kind = go::Node::Kind::kAction};
  auto pipe = std::make_shared<go::Pipe>();
  pipe->commands.push_back({{{.kind = go::Operand::Kind::kField, .fields = {"Response"}}}});
  response.pipe = pipe;
  tree_.root.push_back(std::move(response));
}

bool OllamaTemplate::uses(const char* name) const { return std::ranges::binary_search(names_, std::string(name)); }

MarkedText OllamaTemplate::render(const ordered_json& messages, const ordered_json& tools, bool think,
                                  std::time_t now) const {
  if (!messages.is_array()) throw bad_input("template: the messages are not a list");
  MarkedText system;
  const std::vector<Message> collated = collate(messages, system);
  const bool shows_thoughts = uses("thinking");
  if (uses("messages")) {
    auto list = std::make_shared<go::List>();
    for (const Message& message : collated) list->push_back(message_value(message));
    const Value shown = tools_of(tools.is_array() ? tools : ordered_json::array());
    return go::execute(tree_.root, tree_,
                       data_of({{"System", system},
                                {"Messages", std::shared_ptr<const go::List>(std::move(list))},
                                {"Tools", shown},
                                {"Response", ""}},
                               think, shows_thoughts),
                       now);
  }
  MarkedText out, prompt, response;
  system = {};
  const auto execute = [&](const go::Nodes& nodes) {
    const Value data = data_of({{"System", std::exchange(system, {})},
                                {"Prompt", std::exchange(prompt, {})},
                                {"Response", std::exchange(response, {})}},
                               think, shows_thoughts);
    out.append(go::execute(nodes, tree_, data, now));
  };
  for (const Message& message : collated) {
    if (message.role == "system") {
      if (!prompt.empty() || !response.empty()) execute(tree_.root);
      system = message.content;
    } else if (message.role == "user") {
      if (!response.empty()) execute(tree_.root);
      prompt = message.content;
    } else if (message.role == "assistant") {
      response = message.content;
    }
  }
  execute(go::cut_after(tree_.root, "Response"));
  return out;
}

}  // namespace gabbro::text
