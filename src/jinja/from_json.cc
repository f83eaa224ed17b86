#include "src/jinja/from_json.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "src/base/error.h"
#include "src/jinja/objects.h"

namespace gabbro::jinja {

using nlohmann::ordered_json;

namespace {

MarkedText mark(std::string text, const int32_t* source) {
  return source != nullptr ? MarkedText::input(std::move(text), *source) : MarkedText(std::move(text));
}

}  // namespace

Value from_json(const ordered_json& json, const int32_t* source, int depth) {
  if (depth >= kMaxValueDepth / 2) {  // the other half is for what the template builds around it
    throw bad_input("template: its input nests more than {} deep", kMaxValueDepth / 2);
  }
  switch (json.type()) {
    case ordered_json::value_t::boolean:
      return json.get<bool>();
    case ordered_json::value_t::number_integer:
      return json.get<int64_t>();
    case ordered_json::value_t::number_unsigned: {
      const auto value = json.get<uint64_t>();
      if (value > INT64_MAX) return make_object<LargeInteger>(value);
      return static_cast<int64_t>(value);
    }
    case ordered_json::value_t::number_float:
      return json.get<double>();
    case ordered_json::value_t::string:
      return mark(json.get_ref<const std::string&>(), source);
    case ordered_json::value_t::array: {
      Sequence list;
      for (const ordered_json& item : json) {
        list.items.push_back(from_json(item, source, depth + 1));
        list.depth = std::max(list.depth, list.items.back().depth() + 1);
      }
      return std::make_shared<const Sequence>(std::move(list));
    }
    case ordered_json::value_t::object: {
      Dict dict;
      for (const auto& [key, item] : json.items())
        dict.set_marked(mark(key, source), from_json(item, source, depth + 1));
      return std::make_shared<const Dict>(std::move(dict));
    }
    default:
      return {};
  }
}

}  // namespace gabbro::jinja
