#include "src/text/chat/chat_template.h"

#include <algorithm>
#include <utility>

#include "src/base/error.h"
#include "src/jinja/from_json.h"
#include "src/text/chat/chat_roles.h"
#include "src/text/chat/ollama_template.h"

namespace gabbro::text {
namespace {

using nlohmann::ordered_json;

// f(), whose errors name the chat template.
template <class F>
auto named_errors(const F& f) {
  try {
    return f();
  } catch (const Error& error) {
    throw Error(error.code(), std::string("chat ") + error.what(), error.hint());
  }
}

template <class IndexOf>
jinja::Value convert_list(const ordered_json& json, const char* named, const IndexOf& index_of, int depth);

// An object whose field `named` is input of `index`, and the others are other input; so is everything that is not an
// object.
jinja::Value convert_object(const ordered_json& json, const char* named, int32_t index, int depth) {
  if (!json.is_object()) return jinja::from_json(json, &jinja::kOtherInput, depth);
  jinja::Dict dict;
  for (const auto& [key, item] : json.items()) {
    const bool trusted = key == "role" && item.is_string() && is_common_role(item.get_ref<const std::string&>());
    const int32_t* source = trusted ? nullptr : key == named ? &index : &jinja::kOtherInput;
    const bool is_parts = source == &index && item.is_array();
    dict.set_marked(jinja::MarkedText::input(key), is_parts
                                                       ? convert_list(
                                                             item, "text", [&](size_t) { return index; }, depth + 1)
                                                       : jinja::from_json(item, source, depth + 1));
  }
  return std::make_shared<const jinja::Dict>(std::move(dict));
}

template <class IndexOf>
jinja::Value convert_list(const ordered_json& json, const char* named, const IndexOf& index_of, int depth) {
  if (depth >= 4) return jinja::from_json(json, &jinja::kOtherInput, depth);  // messages, their content, and its parts
  jinja::Sequence list;
  for (const ordered_json& item : json) {
    list.items.push_back(convert_object(item, named, index_of(list.items.size()), depth + 1));
    list.depth = std::max(list.depth, list.items.back().depth() + 1);
  }
  return std::make_shared<const jinja::Sequence>(std::move(list));
}

jinja::Value convert_messages(const ordered_json& messages) {
  if (!messages.is_array()) return jinja::from_json(messages, &jinja::kOtherInput);
  return convert_list(
      messages, "content", [](size_t i) { return static_cast<int32_t>(i); }, 0);
}

}  // namespace

ChatTemplate::ChatTemplate(std::string source)
    : source_(std::move(source)),
      template_(named_errors([this] { return std::make_shared<const jinja::Template>(source_); })) {}

ChatTemplate ChatTemplate::from_go(std::string source) {
  ChatTemplate made;
  made.source_ = std::move(source);
  made.ollama_ = named_errors([&] { return std::make_shared<const OllamaTemplate>(made.source_); });
  return made;
}

jinja::MarkedText ChatTemplate::render(const ordered_json& messages, const ordered_json& tools,
                                       bool add_generation_prompt, const ordered_json& extra) const {
  if (!extra.is_null() && !extra.is_object()) throw bad_input("chat template: its variables must be an object");
  return named_errors([&] {
    if (ollama_ != nullptr) return render_go(messages, tools, add_generation_prompt, extra);
    jinja::Dict variables;
    variables.set("documents", {});
    for (const auto& [key, value] : extra.items())
      variables.set(key, jinja::from_json(value, key.ends_with("_token") ? nullptr : &jinja::kOtherInput));
    variables.set("messages", convert_messages(messages));
    variables.set("tools", jinja::from_json(tools, &jinja::kOtherInput));
    variables.set("add_generation_prompt", add_generation_prompt);
    return template_->render(variables, {.now = now_});
  });
}

jinja::MarkedText ChatTemplate::render_go(const ordered_json& messages, const ordered_json& tools,
                                          bool add_generation_prompt, const ordered_json& extra) const {
  if (!add_generation_prompt) throw bad_input("template: one of Ollama's always begins the answer");
  const auto thinking = extra.is_object() ? extra.find("enable_thinking") : extra.end();
  const bool thinks = !extra.is_object() || thinking == extra.end() || *thinking != ordered_json(false);
  return ollama_->render(messages, tools, thinks, now_.value_or(std::time(nullptr)));
}

void ChatTemplate::check_nesting(const ordered_json& messages) {
  named_errors([&] { return jinja::from_json(messages); });
}

}  // namespace gabbro::text
