#include "src/jinja/methods.h"

#include <algorithm>
#include <cmath>

#include "src/jinja/objects.h"
#include "src/jinja/operators.h"

namespace gabbro::jinja {
namespace {

template <DictView::Part part>
Value view(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound(runtime, "items", args, {});
  return make_object<DictView>(self.dict_ptr(), part);
}

Value dict_get(Runtime& runtime, const Value& self, const Args& args) {
  if (!args.named.empty()) throw runtime.error("dict.get() takes no keyword arguments");
  const Bound bound(runtime, "get", args, {"key", "default"}, 1);
  const Value* found = self.dict().find(runtime, bound[0]);
  return found ? *found : bound.get(1, {});
}

Value same(Runtime& runtime, const Value& self, const Args& args) {  // immutable values need no copy
  const Bound bound(runtime, "copy", args, {});
  return self;
}

Value sequence_index(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound(runtime, "index", args, {"value", "start", "stop"}, 1);
  const Value part = get_slice(runtime, self, bound.get(1, {}), bound.get(2, {}), {});
  const auto size = static_cast<int64_t>(self.items().size());
  int64_t start = bound.integer(1, 0);
  if (start < 0) start = std::max<int64_t>(0, start + size);
  for (size_t i = 0; i < part.items().size(); ++i) {
    if (equal(runtime, part.items()[i], bound[0])) return start + static_cast<int64_t>(i);
  }
  throw runtime.error("{} is not in {}", repr(runtime, bound[0]), self.type_name());
}

Value sequence_count(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound(runtime, "count", args, {"value"}, 1);
  int64_t count = 0;
  for (const Value& item : self.items()) count += equal(runtime, item, bound[0]) ? 1 : 0;
  return count;
}

Value is_integer(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound(runtime, "is_integer", args, {});
  return self.is_integer() || (std::isfinite(self.number()) && self.number() == std::floor(self.number()));
}

constexpr MethodEntry kDictMethods[] = {
    {"items", view<DictView::Part::kItems>},
    {"keys", view<DictView::Part::kKeys>},
    {"values", view<DictView::Part::kValues>},
    {"get", dict_get},
    {"copy", same},
};

constexpr MethodEntry kSequenceMethods[] = {{"index", sequence_index}, {"count", sequence_count}, {"copy", same}};

constexpr MethodEntry kNumberMethods[] = {{"is_integer", is_integer}};

std::vector<std::span<const MethodEntry>> methods_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kString:
      return {text_methods(), text_shape_methods()};
    case Kind::kDict:
      return {kDictMethods};
    case Kind::kList:
      return {kSequenceMethods};
    case Kind::kTuple:
      return {std::span(kSequenceMethods).first(2)};
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return {kNumberMethods};
    default:
      return {};
  }
}

// Markup's methods of str give Markup; its own do as they say.
Value call_on_markup(Runtime& runtime, MethodFunction function, const Value& self, const Args& args) {
  return as_markup(runtime, function(runtime, self, args));
}

Value call_method(Runtime& runtime, MethodFunction function, const Value& self, const Args& args) {
  return function(runtime, self, args);
}

bool bind_method(Runtime& runtime, const Value& value, std::string_view name, std::span<const MethodEntry> methods,
                 decltype(&call_method) call, Value* method) {
  for (const MethodEntry& entry : methods) {
    if (entry.name != name) continue;
    runtime.reserve(128);
    *method = make_object<Function>(
        std::string(name),
        [value, call, function = entry.function](Runtime& inner, const Args& args) {
          if (value.is_string()) inner.scan(value.string());
          return call(inner, function, value, args);
        },
        runtime.checked(value).depth() + 1);
    return true;
  }
  return false;
}

}  // namespace

bool find_method(Runtime& runtime, const Value& value, std::string_view name, Value* method) {
  if (value.is_markup() && bind_method(runtime, value, name, markup_methods(), call_method, method)) return true;
  for (const auto& group : methods_of(value)) {
    if (bind_method(runtime, value, name, group, value.is_markup() ? call_on_markup : call_method, method)) return true;
  }
  return false;
}

}  // namespace gabbro::jinja
