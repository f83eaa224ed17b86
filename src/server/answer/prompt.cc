#include "src/server/answer/prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "src/engine/model_text.h"
#include "src/text/chat/chat_prompt.h"
#include "src/text/chat/generic_tools.h"
#include "src/text/chat/tool_calls.h"
#include "src/text/special/fill_in.h"
#include "src/text/tokenizer.h"

namespace gabbro::server {
namespace {

constexpr int64_t kMostThoughts = 1 << 24;
constexpr size_t kMostMessages = 10'000, kMostParts = 1'000, kMostVariables = 64;

Json read_message(const Json& given, const std::string& path) {
  Fields fields(given, path);
  std::string role = fields.required_text("role");
  if (role == "developer") role = "system";
  if (role != "system" && role != "user" && role != "assistant" && role != "tool" && role != "function")
    fields.refuse("role", fmt::format("'{}' is not a role", role));
  Json message = {{"role", role}};
  const Json* const content = fields.find("content");
  const Json* const calls = fields.array("tool_calls", kMostParts);
  if (content == nullptr) {
    if (role != "assistant")
      throw ApiError(400, fields.path_of("content") + ": is required", "missing_required_parameter",
                     fields.path_of("content"));
    message["content"] = "";
  } else if (content->is_string()) {
    message["content"] = *content;
  } else if (content->is_array()) {
    message["content"] = text_of_parts(*content, fields.path_of("content"));
  } else {
    fields.refuse("content", fmt::format("expected a string or an array, got {}", kind_of(*content)));
  }
  if (calls != nullptr && !calls->empty()) message["tool_calls"] = *calls;
  if (auto call = fields.object("function_call")) {  // the old form
    const std::string name = call->required_text("name"), arguments = call->text("arguments").value_or("");
    message["tool_calls"].push_back(
        {{"id", "call_" + name}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}});
  }
  if (const Json* const images = fields.array("images", kMostParts); images != nullptr && !images->empty())
    throw unsupported(fields.path_of("images"), "images are not supported");
  for (const char* const name : {"name", "tool_call_id", "tool_name", "refusal"}) {
    if (auto text = fields.text(name)) message[name] = *text;
  }
  for (const char* const name : {"reasoning_content", "reasoning", "thinking"}) {
    if (auto text = fields.text(name)) message["reasoning_content"] = *text;
  }
  return message;
}

// Templates of formats that are known take the arguments of calls as objects. Text that is not an object of JSON is
// kept under one name: a call that a model got wrong must not end the conversation.
void prepare_calls(Json& messages) {
  for (Json& message : messages) {
    const auto calls = message.find("tool_calls");
    if (calls == message.end()) continue;
    for (Json& call : *calls) {
      if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
      Json& arguments = call["function"]["arguments"];
      if (!arguments.is_object())
        arguments = arguments_object(arguments.is_string() ? arguments.get<std::string>() : std::string());
    }
  }
}

// Templates of Mistral's models take ids of nine letters and digits only. Others become nine that are theirs alone.
std::string short_id(const std::string& id) {
  constexpr size_t kLength = 9;
  const bool is_short = id.size() == kLength && std::ranges::all_of(id, [](char c) {
                          return std::isalnum(static_cast<unsigned char>(c)) != 0;
                        });
  if (is_short) return id;
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  std::string made;
  for (size_t i = 0; i < kLength; ++i, hash /= kDigits.size()) made += kDigits[hash % kDigits.size()];
  return made;
}

// The limit of thoughts in tokens; -1: none. An effort is one for templates that do not read it.
int thought_budget(const Json& variables, const text::ChatTemplate& used) {
  if (const auto given = variables.find("thinking_budget"); given != variables.end()) return given->get<int>();
  const auto effort = variables.find("reasoning_effort");
  if (effort == variables.end() || used.source().find("reasoning_effort") != std::string::npos) return -1;
  constexpr std::pair<std::string_view, int> kEfforts[] = {{"minimal", 512}, {"low", 2048}, {"medium", 8192}};
  for (const auto& [name, tokens] : kEfforts) {
    if (*effort == name) return tokens;
  }
  return -1;
}

void shorten_ids(Json& messages) {
  const auto shorten = [](Json& object, const char* name) {
    if (object.is_object() && object.contains(name) && object[name].is_string())
      object[name] = short_id(object[name].get<std::string>());
  };
  for (Json& message : messages) {
    shorten(message, "tool_call_id");
    if (!message.contains("tool_calls")) continue;
    for (Json& call : message["tool_calls"]) shorten(call, "id");
  }
}

// Whether an earlier turn called tools.
bool has_calls(const Json& messages) {
  return std::ranges::any_of(messages, [](const Json& message) {
    const std::string role = message.value("role", "");
    return message.contains("tool_calls") || role == "tool" || role == "function";
  });
}

}  // namespace

std::string text_of_parts(const Json& parts, const std::string& path) {
  std::string text;
  if (parts.size() > kMostParts) throw invalid_field(path, fmt::format("has more than {} parts", kMostParts));
  for (size_t i = 0; i < parts.size(); ++i) {
    Fields part(parts[i], fmt::format("{}[{}]", path, i));
    const std::string type = part.text("type").value_or("text");
    if (type == "refusal") {
      text += part.required_text("refusal");
    } else if (type == "text" || type == "input_text" || type == "output_text") {
      text += part.required_text("text");
    } else {
      throw unsupported(part.path_of("type"), fmt::format("parts of the type '{}' are not supported", type));
    }
  }
  return text;
}

Json arguments_object(const std::string& text) {
  Json parsed = Json::parse(text, nullptr, false);
  if (parsed.is_object()) return parsed;
  return text.empty() ? Json::object() : Json({{"arguments", text}});
}

Json read_messages(Fields& fields) {
  const Json* const given = fields.array("messages", kMostMessages);
  if (given == nullptr) throw ApiError(400, "messages: is required", "missing_required_parameter", "messages");
  Json messages = Json::array();
  for (size_t i = 0; i < given->size(); ++i)
    messages.push_back(read_message((*given)[i], fmt::format("messages[{}]", i)));
  return messages;
}

Json with_modelfile(const LoadedModel& model, Json messages) {
  if (model.layers == nullptr) return messages;
  Json all = Json::array();
  const bool has_system = !messages.empty() && messages[0]["role"] == "system";
  if (!has_system && !model.layers->system.empty())
    all.push_back({{"role", "system"}, {"content", model.layers->system}});
  for (const auto& [role, content] : model.layers->messages) all.push_back({{"role", role}, {"content", content}});
  for (Json& message : messages) all.push_back(std::move(message));
  return all;
}

Json read_template_variables(Fields& fields) {
  Json variables = Json::object();
  if (const auto effort = fields.text("reasoning_effort")) {
    variables["reasoning_effort"] = *effort;
    if (*effort == "none") variables["enable_thinking"] = false;
  }
  if (const Json* const think = fields.find("think")) {
    if (think->is_boolean()) {
      variables["enable_thinking"] = think->get<bool>();
    } else if (think->is_string()) {
      variables["enable_thinking"] = true;
      variables["reasoning_effort"] = *think;
    } else {
      fields.refuse("think", fmt::format("expected true, false or a level, got {}", kind_of(*think)));
    }
  }
  for (const char* const name : {"thinking_budget", "thinking_budget_tokens"}) {
    if (const auto budget = fields.integer(name, 0, kMostThoughts)) variables["thinking_budget"] = *budget;
  }
  const Json* const given = fields.find("chat_template_kwargs");
  if (given == nullptr) return variables;
  if (!given->is_object())
    fields.refuse("chat_template_kwargs", fmt::format("expected an object, got {}", kind_of(*given)));
  if (given->size() > kMostVariables) fields.refuse("chat_template_kwargs", "has too many members");
  for (const auto& [name, value] : given->items()) {
    if (value.is_structured())
      fields.refuse("chat_template_kwargs." + name, "expected a string, a number or a boolean");
    variables[name] = value;
  }
  if (const auto budget = variables.find("thinking_budget"); budget != variables.end()) {
    if (!budget->is_number_integer() || *budget < -1 || *budget > kMostThoughts)
      fields.refuse("chat_template_kwargs.thinking_budget", "expected a number of tokens");
  }
  return variables;
}

ChatPromptTokens render_chat(const LoadedModel& model, const Json& messages, const Json& variables, const Json& tools,
                             const std::string& prefill) {
  const text::ChatTemplate* const used = model.generator->chat_template(!tools.is_null());
  const text::Tokenizer& tokenizer = model.generator->tokenizer();
  if (used == nullptr)
    throw ApiError(
        400,
        "the model has no chat template; gabbro serve --chat-template gives it one, and /v1/completions needs none",
        "unsupported_model", "model");
  if (messages.empty()) throw invalid_field("messages", "is empty");
  Json all = template_variables(tokenizer);
  for (const auto& [name, value] : variables.items()) all[name] = value;
  Json shown = messages;
  const text::ToolCallFormat format = text::tool_call_format(used->source());
  if (format != text::ToolCallFormat::kNone) prepare_calls(shown);
  if (format == text::ToolCallFormat::kMistral || format == text::ToolCallFormat::kMistralList) shorten_ids(shown);
  const bool is_generic = format == text::ToolCallFormat::kNone && (!tools.is_null() || has_calls(shown));
  if (is_generic) {
    prepare_calls(shown);
    shown = text::with_generic_tools(shown, tools);
  }
  text::ChatPrompt prompt = text::render_prompt(*used, shown, is_generic ? Json() : tools, true, all);
  text::require_user_text(prompt, shown);
  const ThoughtForm thoughts = text::thought_form(used->source());
  if (!prefill.empty()) {
    if (ends_with_open_thought(prompt.text.bytes(), thoughts))
      prompt.text.append(fmt::format("\n{}\n\n", thoughts.close));
    prompt.text.append(jinja::MarkedText::input(prefill));
  }
  return {.tokens = encode_prompt(tokenizer, prompt.text),
          .text = prompt.text.bytes(),
          .thoughts_open = prefill.empty() && ends_with_open_thought(prompt.text.bytes(), thoughts),
          .thoughts = thoughts,
          .thought_budget = thought_budget(variables, *used)};
}

std::vector<int32_t> fill_in_prompt(const text::Tokenizer& tokenizer, const std::string& before,
                                    const std::string& after, const std::string& field) {
  if (!text::fill_in_tokens(tokenizer).are_known())
    throw unsupported(field, "the model has no tokens for text between two texts");
  return text::fill_in_prompt(tokenizer, {.before = before, .after = after, .files = {}});
}

void check_length(size_t prompt_tokens, int64_t context) {
  if (static_cast<int64_t>(prompt_tokens) <= context) return;
  ApiError error(400,
                 fmt::format("the prompt has {} tokens, more than the context of {} holds", prompt_tokens, context),
                 "context_length_exceeded", "messages");
  error.extra = {{"n_prompt_tokens", prompt_tokens}, {"n_ctx", context}};
  throw error;
}

std::vector<int32_t> read_token_ids(const Json& ids, const std::string& field, int64_t vocabulary) {
  std::vector<int32_t> tokens;
  tokens.reserve(ids.size());
  for (const Json& id : ids) {
    if (!id.is_number_integer()) throw invalid_field(field, fmt::format("expected token ids, got {}", kind_of(id)));
    const bool is_large = id.is_number_unsigned() && id.get<uint64_t>() > INT32_MAX;
    const int64_t value = is_large ? -1 : id.get<int64_t>();
    if (value < 0 || value >= vocabulary)
      throw invalid_field(field,
                          fmt::format("token {} is outside of the vocabulary of {} tokens", id.dump(), vocabulary));
    tokens.push_back(static_cast<int32_t>(value));
  }
  return tokens;
}

}  // namespace gabbro::server
