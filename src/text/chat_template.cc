#include "src/text/chat_template.h"

#include <utility>

#include "src/base/error.h"

namespace gabbro::text {
namespace {

using nlohmann::ordered_json;

jinja::Value convert(const ordered_json& json, int depth) {
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
      return json.get_ref<const std::string&>();
    case ordered_json::value_t::array: {
      jinja::Sequence list;
      for (const ordered_json& item : json) {
        list.items.push_back(convert(item, depth + 1));
        list.depth = std::max(list.depth, list.items.back().depth() + 1);
      }
      return std::make_shared<const jinja::Sequence>(std::move(list));
    }
    case ordered_json::value_t::object: {
      jinja::Dict dict;
      for (const auto& [key, item] : json.items()) dict.set(key, convert(item, depth + 1));
      return std::make_shared<const jinja::Dict>(std::move(dict));
    }
    default:
      return {};
  }
}

}  // namespace

jinja::Value from_json(const ordered_json& json) { return convert(json, 0); }

ChatTemplate::ChatTemplate(std::string source) : source_(std::move(source)), template_(source_) {}

std::string ChatTemplate::render(const ordered_json& messages, const ordered_json& tools, bool add_generation_prompt,
                                 const ordered_json& extra) const {
  if (!extra.is_null() && !extra.is_object()) throw bad_input("chat template: its variables must be an object");
  jinja::Dict variables;
  variables.set("documents", {});
  for (const auto& [key, value] : extra.items()) variables.set(key, from_json(value));
  variables.set("messages", from_json(messages));
  variables.set("tools", from_json(tools));
  variables.set("add_generation_prompt", add_generation_prompt);
  return template_.render(variables, {.now = now_});
}

}  // namespace gabbro::text
