#include "src/server/answer/anthropic_fields.h"

#include <fmt/format.h>

#include <map>

namespace gabbro::server {
namespace {

constexpr size_t kMostTurns = 10'000, kMostBlocks = 1'000;
constexpr std::string_view kBillingBlock = "x-anthropic-billing-header:";

void add_line(std::string& text, const std::string& more) {
  if (!text.empty() && !more.empty()) text += '\n';
  text += more;
}

[[noreturn]] void refuse_block(const Fields& block, const std::string& type) {
  throw unsupported(block.path_of("type"), fmt::format("blocks of the type '{}' are not supported", type));
}

// A string, or blocks of text.
std::string read_text(Fields& fields, const char* name, bool drops_billing) {
  const Json* const given = fields.find(name);
  if (given == nullptr) return {};
  if (given->is_string()) return given->get<std::string>();
  const Json* const blocks = fields.array(name, kMostBlocks);
  std::string text;
  for (size_t i = 0; i < blocks->size(); ++i) {
    Fields block((*blocks)[i], fmt::format("{}[{}]", fields.path_of(name), i));
    const std::string type = block.required_text("type");
    if (type != "text") refuse_block(block, type);
    const std::string more = block.required_text("text");
    if (!drops_billing || !more.starts_with(kBillingBlock)) add_line(text, more);
  }
  return text;
}

// Collects messages: neighbors of one role are joined, and each result of a tool is a separate message.
class Collector {
 public:
  void add_message(const Json& given, const std::string& path) {
    Fields fields(given, path);
    const std::string role = fields.required_text("role");
    if (role != "user" && role != "assistant" && role != "system")
      fields.refuse("role", fmt::format("'{}' is not user or assistant", role));
    const Json* const content = fields.find("content");
    if (content == nullptr) {
      throw ApiError(400, fields.path_of("content") + ": is required", "missing_required_parameter",
                     fields.path_of("content"));
    }
    if (content->is_string()) return add_text(role, content->get<std::string>());
    const Json* const blocks = fields.array("content", kMostBlocks);
    for (size_t i = 0; i < blocks->size(); ++i)
      add_block(role, Fields((*blocks)[i], fmt::format("{}[{}]", fields.path_of("content"), i)));
    if (blocks->empty()) add_text(role, "");
  }

  AnthropicMessages take() {
    AnthropicMessages result{.messages = std::move(messages_), .prefill = ""};
    if (result.messages.empty() || result.messages.back()["role"] != "assistant") return result;
    const Json& last = result.messages.back();
    if (last.contains("tool_calls")) return result;
    result.prefill = last["content"].get<std::string>();
    result.messages.erase(result.messages.size() - 1);
    return result;
  }

  void add_text(const std::string& role, const std::string& text) {
    Json& message = message_of(role);
    std::string joined = message["content"].get<std::string>();
    add_line(joined, text);
    message["content"] = joined;
  }

 private:
  // The last message, or a new one.
  Json& message_of(const std::string& role) {
    if (messages_.empty() || messages_.back()["role"] != role) messages_.push_back({{"role", role}, {"content", ""}});
    return messages_.back();
  }

  void add_block(const std::string& role, Fields block) {
    const std::string type = block.required_text("type");
    if (type == "text") return add_text(role, block.required_text("text"));
    if (type == "tool_result" && role == "user") return add_result(block);
    if (role != "assistant") refuse_block(block, type);
    if (type == "tool_use") return add_call(block);
    if (type == "thinking") {
      Json& message = message_of(role);
      std::string joined = message.value("reasoning_content", "");
      add_line(joined, block.required_text("thinking"));
      if (!joined.empty()) message["reasoning_content"] = joined;
    } else if (type != "redacted_thinking") {
      refuse_block(block, type);
    }
  }

  void add_call(Fields& block) {
    const std::string id = block.required_text("id"), name = block.required_text("name");
    names_[id] = name;
    const Json* const input = block.find("input");
    if (input != nullptr && !input->is_object())
      block.refuse("input", fmt::format("expected an object, got {}", kind_of(*input)));
    message_of("assistant")["tool_calls"].push_back(
        {{"id", id},
         {"type", "function"},
         {"function", {{"name", name}, {"arguments", input != nullptr ? *input : Json::object()}}}});
  }

  void add_result(Fields& block) {
    const std::string id = block.required_text("tool_use_id");
    block.boolean("is_error");
    Json message = {{"role", "tool"}, {"tool_call_id", id}};
    if (const auto name = names_.find(id); name != names_.end()) message["name"] = name->second;
    message["content"] = read_text(block, "content", false);
    messages_.push_back(std::move(message));
  }

  Json messages_ = Json::array();
  std::map<std::string, std::string> names_;  // of calls, by their ids
};

}  // namespace

AnthropicMessages read_anthropic_messages(Fields& fields) {
  Collector collector;
  if (const std::string system = read_text(fields, "system", true); !system.empty())
    collector.add_text("system", system);
  const Json* const given = fields.array("messages", kMostTurns);
  if (given == nullptr) throw ApiError(400, "messages: is required", "missing_required_parameter", "messages");
  if (given->empty()) fields.refuse("messages", "is empty");
  for (size_t i = 0; i < given->size(); ++i) collector.add_message((*given)[i], fmt::format("messages[{}]", i));
  return collector.take();
}

Json read_anthropic_variables(Fields& fields) {
  constexpr int64_t kLeastBudget = 1024, kMostBudget = 1 << 24;
  Json variables = Json::object();
  variables["enable_thinking"] = false;
  if (auto thinking = fields.object("thinking")) {
    const std::string type = thinking->required_text("type");
    if (type != "enabled" && type != "disabled" && type != "adaptive")
      thinking->refuse("type", fmt::format("'{}' is not enabled, disabled or adaptive", type));
    variables["enable_thinking"] = type != "disabled";
    if (const auto budget = thinking->integer("budget_tokens", kLeastBudget, kMostBudget))
      variables["thinking_budget"] = *budget;
  }
  if (auto output = fields.object("output_config")) {
    if (const auto effort = output->text("effort")) variables["reasoning_effort"] = *effort;
  }
  return variables;
}

}  // namespace gabbro::server
