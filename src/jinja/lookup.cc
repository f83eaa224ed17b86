// Attributes, items and slices, in the order in which Jinja's immutable sandbox looks for them.
#include <algorithm>

#include "src/jinja/marks.h"
#include "src/jinja/operators.h"
#include "src/jinja/utf8.h"

namespace gabbro::jinja {
namespace {

// Attributes that every Python object has; the sandbox forbids them.
bool is_internal(std::string_view name) {
  return name == "__class__" || name == "__init__" || name == "__doc__" || name == "__dict__" || name == "__eq__" ||
         name == "__len__" || name == "__getitem__" || name == "__hash__" || name == "__str__" || name == "__repr__" ||
         name == "__new__" || name == "__reduce__" || name == "__subclasshook__" || name == "__call__";
}

bool modifies(const Value& value, std::string_view name) {
  constexpr std::string_view kList[] = {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};
  constexpr std::string_view kDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  if (value.kind() == Kind::kList) return std::find(std::begin(kList), std::end(kList), name) != std::end(kList);
  if (value.is_dict()) return std::find(std::begin(kDict), std::end(kDict), name) != std::end(kDict);
  return false;
}

// value[key] of Python; false for TypeError and LookupError.
bool python_item(Runtime& runtime, const Value& value, const Value& key, Value* result) {
  require_defined(runtime, value);
  if (value.is_dict()) {
    if (key.kind() == Kind::kList || key.is_dict()) return false;
    const Value* found = value.dict().find(runtime, key);
    if (found) *result = *found;
    return found != nullptr;
  }
  if (value.kind() == Kind::kObject) return value.object()->item(runtime, key, result);
  if (!key.is_integer() || !(value.is_sequence() || value.is_string())) return false;
  const int64_t size = length(runtime, value);
  const int64_t index = key.integer() < 0 ? key.integer() + size : key.integer();
  if (index < 0 || index >= size) return false;
  if (value.is_sequence()) {
    *result = value.items()[static_cast<size_t>(index)];
  } else {
    const std::string& text = value.string();
    size_t end = byte_offset(text, static_cast<size_t>(index));
    const size_t begin = end;
    next_code_point(text, &end);
    *result = runtime.text_like(value, value.text().substr(begin, end - begin));
  }
  return true;
}

// Jinja's name for the thing in "... has no attribute ...".
std::string object_name(const Value& value) {
  if (value.is_none()) return "None";
  if (value.is_markup()) return "markupsafe.Markup object";
  return (value.kind() == Kind::kObject ? value.object()->qualified_name() : value.type_name()) + " object";
}

struct Range {
  int64_t start, stop, step;
};

// slice.indices(size) of Python.
Range resolve_slice(Runtime& runtime, int64_t size, const Value& start, const Value& stop, const Value& step) {
  const int64_t by = step.is_none() ? 1 : to_index(runtime, step);
  if (by == 0) throw runtime.error("slice step cannot be zero");
  const int64_t low = by < 0 ? -1 : 0;
  const int64_t high = by < 0 ? size - 1 : size;
  const auto clamp = [&](const Value& value, int64_t otherwise) {
    if (value.is_none()) return otherwise;
    const int64_t index = to_index(runtime, value);
    return std::clamp(index < 0 ? index + size : index, low, high);
  };
  return {clamp(start, by < 0 ? high : low), clamp(stop, by < 0 ? low : high), by};
}

}  // namespace

bool is_callable(const Value& value) {
  return value.is_undefined() || (value.kind() == Kind::kObject && value.object()->callable());
}

bool find_attribute(Runtime& runtime, const Value& value, const std::string& name, Value* result) {
  if (value.is_undefined() && !(name.starts_with("__") && name.ends_with("__"))) {
    throw runtime.error("{}", value.message());
  }
  if (is_internal(name) || modifies(value, name)) {
    *result =
        Value::undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, value.type_name()));
    return true;
  }
  if (value.kind() == Kind::kObject) return value.object()->attribute(runtime, name, result);
  if (value.is_sequence() && value.sequence().is_group && (name == "grouper" || name == "list")) {
    *result = value.items()[name == "grouper" ? 0 : 1];
    return true;
  }
  return find_method(runtime, value, name, result);
}

Value get_attribute(Runtime& runtime, const Value& value, const std::string& name) {
  Value result;
  if (find_attribute(runtime, value, name, &result)) return result;
  if (python_item(runtime, value, Value(name), &result)) return result;
  return runtime.undefined(fmt::format("'{}' has no attribute {}", object_name(value), repr_string(name)));
}

Value get_item(Runtime& runtime, const Value& value, const Value& key) {
  Value result;
  if (python_item(runtime, value, key, &result)) return result;
  if (!key.is_string()) {
    return runtime.undefined(fmt::format("{} has no element {}", object_name(value), repr(runtime, key)));
  }
  if (find_attribute(runtime, value, key.string(), &result)) return result;
  return runtime.undefined(fmt::format("'{}' has no attribute {}", object_name(value), repr_string(key.string())));
}

Value get_slice(Runtime& runtime, const Value& value, const Value& start, const Value& stop, const Value& step) {
  require_defined(runtime, value);
  if (!value.is_sequence() && !value.is_string()) {
    return Value::undefined(fmt::format("{} has no element slice({}, {}, {})", object_name(value), repr(runtime, start),
                                        repr(runtime, stop), repr(runtime, step)));
  }
  const Range range = resolve_slice(runtime, length(runtime, value), start, stop, step);
  if (value.is_string() && range.step == 1) {
    const std::string& text = value.string();
    if (range.start >= range.stop) return "";
    const size_t begin = byte_offset(text, static_cast<size_t>(range.start));
    const size_t count =
        byte_offset(std::string_view(text).substr(begin), static_cast<size_t>(range.stop - range.start));
    return runtime.text_like(value, value.text().substr(begin, count));
  }
  std::u32string points;
  if (value.is_string()) {
    runtime.reserve_text(value.string().size() * sizeof(char32_t));
    points = decode(value.string());
  }
  std::u32string picked;
  std::vector<Value> items;
  for (int64_t i = range.start; range.step > 0 ? i < range.stop : i > range.stop;) {
    runtime.step();
    if (value.is_string()) {
      picked.push_back(points[static_cast<size_t>(i)]);
    } else {
      items.push_back(value.items()[static_cast<size_t>(i)]);
    }
    if (__builtin_add_overflow(i, range.step, &i)) break;
  }
  return value.is_string() ? runtime.text_like(value, mark_as(encode(picked), {&value}))
                           : runtime.sequence(std::move(items), value.kind() == Kind::kTuple);
}

}  // namespace gabbro::jinja
