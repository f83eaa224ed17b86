// Finding filters, and what several of them share.
#include "src/jinja/library.h"

#include <algorithm>

#include "src/jinja/marks.h"
#include "src/jinja/operators.h"
#include "src/jinja/parser.h"
#include "src/jinja/utf8.h"

namespace gabbro::jinja {

FilterFunction find_filter(std::string_view name) {
  for (const auto& group : {text_filters(), markup_filters(), number_filters(), sequence_filters(), order_filters()}) {
    for (const FilterEntry& entry : group) {
      if (entry.name == name) return entry.function;
    }
  }
  return nullptr;
}

bool has_filter(std::string_view name) { return find_filter(name) != nullptr; }

AttributePath::AttributePath(Runtime& runtime, const Value& attribute) {
  if (attribute.is_none()) return;
  if (!attribute.is_string()) {
    parts_.push_back(attribute);
    return;
  }
  const std::string& path = attribute.string();
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    const bool is_index = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    parts_.push_back(is_index ? Value(*parse_int(runtime, part, 10)) : Value(part));
    begin = end + 1;
  }
}

Value AttributePath::get(Runtime& runtime, const Value& item, const Value* otherwise) const {
  Value value = item;
  for (const Value& part : parts_) {
    value = get_item(runtime, value, part);
    if (otherwise && !otherwise->is_none() && value.is_undefined()) value = *otherwise;
  }
  return value;
}

Value fold_case(Runtime& runtime, const Value& value) {
  return value.is_string() ? runtime.text(map_text(value.text(), lower)) : value;
}

std::vector<Value> sort_by(Runtime& runtime, std::vector<Value> items, const std::function<Value(const Value&)>& key,
                           bool reverse) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : items) {
    Value item_key = key(item);
    keyed.emplace_back(std::move(item_key), std::move(item));
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? ordered(runtime, Order::kLess, b.first, a.first)
                   : ordered(runtime, Order::kLess, a.first, b.first);
  });
  for (size_t i = 0; i < keyed.size(); ++i) items[i] = std::move(keyed[i].second);
  return items;
}

}  // namespace gabbro::jinja
