#include "src/text/chat_template.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "src/base/error.h"

namespace gabbro::text {
namespace {

using nlohmann::ordered_json;

// The words of the protocol. A template may build a control token from one ('<|' + role + '|>'), which no other word
// can.
bool is_common_role(std::string_view role) {
  constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool", "function", "ipython"};
  return std::find(std::begin(kRoles), std::end(kRoles), role) != std::end(kRoles);
}

MarkedText mark(std::string text, const int32_t* source) {
  return source != nullptr ? MarkedText::input(std::move(text), *source) : MarkedText(std::move(text));
}

jinja::Value convert(const ordered_json& json, const int32_t* source, int depth) {
  if (depth >= jinja::kMaxValueDepth / 2) {  // the other half is for what the template builds around it
    throw bad_input("chat template: its input nests more than {} deep", jinja::kMaxValueDepth / 2);
  }
  switch (json.type()) {
    case ordered_json::value_t::boolean:
      return json.get<bool>();
    case ordered_json::value_t::number_integer:
      return json.get<int64_t>();
    case ordered_json::value_t::number_unsigned: {
      const auto value = json.get<uint64_t>();
      if (value > INT64_MAX)
        throw bad_input("chat template: the integer {} in its input needs more than 64 bits", value);
      return static_cast<int64_t>(value);
    }
    case ordered_json::value_t::number_float:
      return json.get<double>();
    case ordered_json::value_t::string:
      return mark(json.get_ref<const std::string&>(), source);
    case ordered_json::value_t::array: {
      jinja::Sequence list;
      for (const ordered_json& item : json) {
        list.items.push_back(convert(item, source, depth + 1));
        list.depth = std::max(list.depth, list.items.back().depth() + 1);
      }
      return std::make_shared<const jinja::Sequence>(std::move(list));
    }
    case ordered_json::value_t::object: {
      jinja::Dict dict;
      for (const auto& [key, item] : json.items()) dict.set_marked(mark(key, source), convert(item, source, depth + 1));
      return std::make_shared<const jinja::Dict>(std::move(dict));
    }
    default:
      return {};
  }
}

template <class IndexOf>
jinja::Value convert_list(const ordered_json& json, const char* named, const IndexOf& index_of, int depth);

// An object whose field `named` is input of `index`, and the others are other input; so is all that is no object.
jinja::Value convert_object(const ordered_json& json, const char* named, int32_t index, int depth) {
  if (!json.is_object()) return convert(json, &kOtherInput, depth);
  jinja::Dict dict;
  for (const auto& [key, item] : json.items()) {
    const bool trusted = key == "role" && item.is_string() && is_common_role(item.get_ref<const std::string&>());
    const int32_t* source = trusted ? nullptr : key == named ? &index : &kOtherInput;
    const bool is_parts = source == &index && item.is_array();
    dict.set_marked(MarkedText::input(key), is_parts ? convert_list(
                                                           item, "text", [&](size_t) { return index; }, depth + 1)
                                                     : convert(item, source, depth + 1));
  }
  return std::make_shared<const jinja::Dict>(std::move(dict));
}

template <class IndexOf>
jinja::Value convert_list(const ordered_json& json, const char* named, const IndexOf& index_of, int depth) {
  if (depth >= 4) return convert(json, &kOtherInput, depth);  // messages, their content, and its parts
  jinja::Sequence list;
  for (const ordered_json& item : json) {
    list.items.push_back(convert_object(item, named, index_of(list.items.size()), depth + 1));
    list.depth = std::max(list.depth, list.items.back().depth() + 1);
  }
  return std::make_shared<const jinja::Sequence>(std::move(list));
}

jinja::Value convert_messages(const ordered_json& messages) {
  if (!messages.is_array()) return convert(messages, &kOtherInput, 0);
  return convert_list(
      messages, "content", [](size_t i) { return static_cast<int32_t>(i); }, 0);
}

}  // namespace

jinja::Value from_json(const ordered_json& json, const int32_t* source) { return convert(json, source, 0); }

ChatTemplate::ChatTemplate(std::string source) : source_(std::move(source)), template_(source_) {}

MarkedText ChatTemplate::render(const ordered_json& messages, const ordered_json& tools, bool add_generation_prompt,
                                const ordered_json& extra) const {
  if (!extra.is_null() && !extra.is_object()) throw bad_input("chat template: its variables must be an object");
  jinja::Dict variables;
  variables.set("documents", {});
  for (const auto& [key, value] : extra.items())
    variables.set(key, from_json(value, key.ends_with("_token") ? nullptr : &kOtherInput));
  variables.set("messages", convert_messages(messages));
  variables.set("tools", from_json(tools, &kOtherInput));
  variables.set("add_generation_prompt", add_generation_prompt);
  return template_.render(variables, {.now = now_});
}

}  // namespace gabbro::text
