// Filters over sequences. Filters that return generators in Jinja do so here: they run when their items are asked for.
#include <algorithm>

#include "src/jinja/library.h"
#include "src/jinja/operators.h"
#include "src/jinja/utf8.h"

namespace gabbro::jinja {
namespace {

Value filter_default(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "default", args, {"default_value", "boolean"});
  const bool replace = value.is_undefined() || (bound.truth(1, false) && !truth(value));
  return replace ? bound.get(0, "") : value;
}

Value filter_length(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "length", args, {});
  return length(runtime, value);
}

Value filter_first(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "first", args, {});
  Value first;
  return iterate(runtime, value)->next(runtime, &first) ? first
                                                        : Value::undefined("No first item, sequence was empty.");
}

Value filter_last(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "last", args, {});
  const Value backwards = reversed(runtime, value);
  if (backwards.is_none()) throw runtime.error("'{}' object is not reversible", value.type_name());
  Value last;
  return iterate(runtime, backwards)->next(runtime, &last) ? last
                                                           : Value::undefined("No last item, sequence was empty.");
}

Value filter_list(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "list", args, {});
  return runtime.list(collect(runtime, value));
}

Value filter_reverse(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "reverse", args, {});
  if (value.is_string()) return get_slice(runtime, value, {}, {}, -1);
  Value backwards = reversed(runtime, value);
  if (!backwards.is_none()) return backwards;
  if (!try_iterate(runtime, value)) throw runtime.error("argument must be iterable");
  std::vector<Value> items = collect(runtime, value);
  std::reverse(items.begin(), items.end());
  return runtime.list(std::move(items));
}

Value filter_join(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "join", args, {"d", "attribute"});
  const MarkedText separator = to_text(runtime, bound.get(0, ""));
  const AttributePath path(runtime, bound.get(1, {}));
  const auto items = iterate(runtime, value);
  MarkedText result;
  bool first = true;
  for (Value item; items->next(runtime, &item); first = false) {
    if (!first) result.append(separator);
    result.append(to_text(runtime, path.get(runtime, item)));
    if (result.size() > runtime.limits().output) break;
  }
  return runtime.text(std::move(result));
}

Value filter_items(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "items", args, {});
  return generate(runtime, value, [value, i = size_t{0}](Runtime& inner, Value* item) mutable {
    if (value.is_undefined()) return false;
    if (!value.is_dict()) throw inner.error("Can only get item pairs from a mapping.");
    if (i >= value.dict().size()) return false;
    const auto& [key, found] = value.dict().entries()[i++];
    *item = inner.tuple({key, found});
    return true;
  });
}

// The items of `value` once the first is asked for; none where it is false.
class LazyItems {
 public:
  explicit LazyItems(Value value) : value_(std::move(value)) {}
  bool next(Runtime& runtime, Value* item) {
    if (!iterator_) {
      if (!truth(value_)) return false;
      iterator_ = iterate(runtime, value_);
    }
    return iterator_->next(runtime, item);
  }

 private:
  Value value_;
  std::shared_ptr<Iterator> iterator_;
};

std::string filter_name(Runtime& runtime, const Value& name) {
  require_defined(runtime, name);
  if (!name.is_string()) throw runtime.error("No filter or test named {}.", repr(runtime, name));
  return name.string();
}

// A container of the arguments counts as deep as the deepest of them.
Value source_of(Runtime& runtime, const Value& value, const Args& args) {
  std::vector<Value> all = args.positional;
  for (const auto& [name, argument] : args.named) all.push_back(argument);
  all.push_back(value);
  return runtime.tuple(std::move(all));
}

Value filter_map(Runtime& runtime, const Value& value, const Args& args) {
  const Value source = source_of(runtime, value, args);
  return generate(runtime, source, [items = LazyItems(value), args](Runtime& inner, Value* item) mutable {
    if (!items.next(inner, item)) return false;
    const bool by_attribute =
        args.positional.empty() &&
        std::any_of(args.named.begin(), args.named.end(), [](const auto& a) { return a.first == "attribute"; });
    if (by_attribute) {
      const Bound bound(inner, "map", args, {"attribute", "default"});
      const Value otherwise = bound.get(1, {});
      *item = AttributePath(inner, bound[0]).get(inner, *item, &otherwise);
      return true;
    }
    if (args.positional.empty()) throw inner.error("map requires a filter argument");
    const Args rest{{args.positional.begin() + 1, args.positional.end()}, args.named};
    *item = inner.call_filter(filter_name(inner, args.positional[0]), *item, rest);
    return true;
  });
}

// select, reject, selectattr and rejectattr.
template <bool wanted, bool by_attribute>
Value filter_select(Runtime& runtime, const Value& value, const Args& args) {
  const Value source = source_of(runtime, value, args);
  return generate(runtime, source, [items = LazyItems(value), args](Runtime& inner, Value* item) mutable {
    constexpr size_t kTest = by_attribute ? 1 : 0;  // where the name of the test stands
    while (items.next(inner, item)) {
      Value tested = *item;
      if (by_attribute) {
        if (args.positional.empty()) throw inner.error("Missing parameter for attribute name");
        tested = AttributePath(inner, args.positional[0]).get(inner, *item);
      }
      bool passes = false;
      if (args.positional.size() <= kTest) {
        passes = truth(tested);
      } else {
        const Args rest{{args.positional.begin() + kTest + 1, args.positional.end()}, args.named};
        passes = inner.call_test(filter_name(inner, args.positional[kTest]), tested, rest);
      }
      if (passes == wanted) return true;
    }
    return false;
  });
}

Value filter_batch(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "batch", args, {"linecount", "fill_with"}, 1);
  const Value& size = bound[0];
  const Value fill = bound.get(1, {});
  const auto items = iterate(runtime, value);
  auto pending = std::make_shared<std::optional<Value>>();
  return generate(runtime, source_of(runtime, value, args), [size, fill, items, pending](Runtime& inner, Value* batch) {
    std::vector<Value> row;
    if (*pending) row.push_back(*std::exchange(*pending, std::nullopt));
    for (Value item; items->next(inner, &item);) {
      if (equal(inner, static_cast<int64_t>(row.size()), size)) {
        *pending = std::move(item);
        *batch = inner.list(std::move(row));
        return true;
      }
      row.push_back(std::move(item));
    }
    if (row.empty()) return false;
    while (!fill.is_none() && ordered(inner, Order::kLess, static_cast<int64_t>(row.size()), size)) {
      inner.reserve(sizeof(Value));
      row.push_back(fill);
    }
    *batch = inner.list(std::move(row));
    return true;
  });
}

Value filter_slice(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "slice", args, {"slices", "fill_with"}, 1);
  const int64_t slices = bound.integer(0, 1);
  const Value fill = bound.get(1, {});
  if (slices == 0) throw runtime.error("integer division or modulo by zero");
  const std::vector<Value> items = collect(runtime, value);
  const auto count = static_cast<int64_t>(items.size());
  const Value source = runtime.list(items);
  return generate(runtime, source_of(runtime, source, args),
                  [source, slices, fill, count, at = int64_t{0}, i = int64_t{0}](Runtime& inner, Value* row) mutable {
                    if (i >= slices) return false;
                    const bool extra = i++ < count % slices;
                    const int64_t end = at + count / slices + (extra ? 1 : 0);
                    std::vector<Value> part(source.items().begin() + at, source.items().begin() + end);
                    at = end;
                    if (!fill.is_none() && !extra) part.push_back(fill);
                    *row = inner.list(std::move(part));
                    return true;
                  });
}

Value filter_attr(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "attr", args, {"name"}, 1);
  const std::string name = bound.string(0, "");
  Value result;
  if (find_attribute(runtime, value, name, &result)) return result;
  return runtime.undefined(fmt::format("'{} object' has no attribute {}", value.type_name(), repr_string(name)));
}

Value filter_random(Runtime& runtime, const Value&, const Args&) {
  throw runtime.error("the filter 'random' is not supported: a template gives the same text each time");
}

constexpr FilterEntry kSequenceFilters[] = {
    {"default", filter_default},
    {"d", filter_default},
    {"length", filter_length},
    {"count", filter_length},
    {"first", filter_first},
    {"last", filter_last},
    {"list", filter_list},
    {"reverse", filter_reverse},
    {"join", filter_join},
    {"items", filter_items},
    {"map", filter_map},
    {"select", filter_select<true, false>},
    {"reject", filter_select<false, false>},
    {"selectattr", filter_select<true, true>},
    {"rejectattr", filter_select<false, true>},
    {"batch", filter_batch},
    {"slice", filter_slice},
    {"attr", filter_attr},
    {"random", filter_random},
};

}  // namespace

std::span<const FilterEntry> sequence_filters() { return kSequenceFilters; }

}  // namespace gabbro::jinja
