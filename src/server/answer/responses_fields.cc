#include "src/server/answer/responses_fields.h"

#include <fmt/format.h>

#include <map>

#include "src/server/answer/prompt.h"
#include "src/text/base64.h"

namespace gabbro::server {
namespace {

constexpr size_t kMostItems = 10'000, kMostItemParts = 1'000;

class Items {
 public:
  explicit Items(const std::string& instructions) {
    if (!instructions.empty()) add("system", instructions);
  }

  void add(const std::string& role, const std::string& text) {
    // Templates take one system message, the first.
    if (role == "system" && messages_.size() == 1 && messages_[0]["role"] == "system") {
      messages_[0]["content"] = messages_[0]["content"].get<std::string>() + "\n\n" + text;
      return;
    }
    Json message = {{"role", role}, {"content", text}};
    if (role == "assistant") take_thought(message);
    messages_.push_back(std::move(message));
  }

  void add_item(const Json& given, const std::string& path) {
    Fields item(given, path);
    const std::string type = item.text("type").value_or("message");
    if (type == "message") return add_message(item);
    if (type == "function_call") {
      return add_call(item, item.text("arguments").value_or(""));
    }
    if (type == "custom_tool_call") {
      return add_call(item, Json({{"input", item.required_text("input")}}).dump());
    }
    if (type == "function_call_output" || type == "custom_tool_call_output") return add_output(item);
    if (type == "reasoning") return add_thought(item);
    throw unsupported(item.path_of("type"), fmt::format("items of the type '{}' are not supported", type));
  }

  Json take() { return std::move(messages_); }

 private:
  void add_message(Fields& item) {
    std::string role = item.required_text("role");
    if (role == "developer") role = "system";
    if (role != "system" && role != "user" && role != "assistant")
      item.refuse("role", fmt::format("'{}' is not a role", role));
    add(role, read_content(item, "content"));
  }

  static std::string read_content(Fields& item, const char* name) {
    const Json* const content = item.find(name);
    if (content == nullptr)
      throw ApiError(400, item.path_of(name) + ": is required", "missing_required_parameter", item.path_of(name));
    if (content->is_string()) return content->get<std::string>();
    return text_of_parts(*item.array(name, kMostItemParts), item.path_of(name));
  }

  void add_call(Fields& item, const std::string& arguments) {
    const std::string id = item.required_text("call_id"), name = item.required_text("name");
    names_[id] = name;
    if (messages_.empty() || messages_.back()["role"] != "assistant") add("assistant", "");
    messages_.back()["tool_calls"].push_back(
        {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}});
  }

  void add_output(Fields& item) {
    const std::string id = item.required_text("call_id");
    Json message = {{"role", "tool"}, {"tool_call_id", id}};
    if (const auto name = names_.find(id); name != names_.end()) message["name"] = name->second;
    message["content"] = read_content(item, "output");
    messages_.push_back(std::move(message));
  }

  // The thoughts of the next message: as text, else as they were given to a client that asked for them encrypted.
  void add_thought(Fields& item) {
    const Json* const content = item.array("content", kMostItemParts);
    std::string text;
    for (size_t i = 0; content != nullptr && i < content->size(); ++i)
      text += Fields((*content)[i], fmt::format("{}[{}]", item.path_of("content"), i)).required_text("text");
    if (const auto encrypted = item.text("encrypted_content"); text.empty() && encrypted) {
      try {
        text = text::decode_base64(*encrypted, item.path_of("encrypted_content"));
      } catch (const Error&) {  // of another server
      }
      if (!is_utf8(text)) text.clear();
    }
    thought_ += text;
  }

  static bool is_utf8(const std::string& text) {
    try {
      static_cast<void>(Json(text).dump());
      return text.find('\0') == text.npos;
    } catch (const Json::exception&) {
      return false;
    }
  }

  void take_thought(Json& message) {
    if (!thought_.empty()) message["reasoning_content"] = std::exchange(thought_, {});
  }

  Json messages_ = Json::array();
  std::map<std::string, std::string> names_;  // of calls, by their ids
  std::string thought_;
};

}  // namespace

Json read_responses_messages(Fields& fields) {
  Items items(fields.text("instructions").value_or(""));
  const Json* const input = fields.find("input");
  if (input == nullptr) throw ApiError(400, "input: is required", "missing_required_parameter", "input");
  if (input->is_string()) {
    items.add("user", input->get<std::string>());
    return items.take();
  }
  if (!input->is_array()) fields.refuse("input", fmt::format("expected a string or an array, got {}", kind_of(*input)));
  const Json* const list = fields.array("input", kMostItems);
  if (list->empty()) fields.refuse("input", "is empty");
  for (size_t i = 0; i < list->size(); ++i) items.add_item((*list)[i], fmt::format("input[{}]", i));
  return items.take();
}

Json read_responses_variables(Fields& fields) {
  Json variables = read_template_variables(fields);
  if (auto reasoning = fields.object("reasoning")) {
    if (const auto effort = reasoning->text("effort")) {
      variables["reasoning_effort"] = *effort;
      if (*effort == "none") variables["enable_thinking"] = false;
    }
    reasoning->text("summary");
  }
  return variables;
}

void refuse_unsupported_responses(Fields& fields) {
  for (const char* const name : {"previous_response_id", "conversation", "prompt"}) {
    if (fields.has(name)) throw unsupported(name, "answers are not stored; send the whole conversation in \"input\"");
  }
  if (fields.boolean_or("background", false)) throw unsupported("background", "is not supported");
  if (fields.text("truncation").value_or("disabled") != "disabled")
    throw unsupported("truncation", "only \"disabled\" is supported");
  if (const auto top = fields.integer("top_logprobs", 0, 20); top && *top > 0)
    throw unsupported("top_logprobs", "is not supported here; /v1/chat/completions has it");
  const Json* const include = fields.array("include", 64);
  for (size_t i = 0; include != nullptr && i < include->size(); ++i) {
    if ((*include)[i] == "message.output_text.logprobs")
      throw unsupported("include", "scores are not supported here; /v1/chat/completions has them");
  }
  fields.ignore({"store", "user", "metadata", "service_tier", "safety_identifier", "prompt_cache_key",
                 "prompt_cache_retention", "max_tool_calls", "stream_options", "client_metadata"});
}

}  // namespace gabbro::server
