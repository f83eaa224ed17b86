// Filters that compare items: sort, unique, min, max, groupby, dictsort.
#include <unordered_set>

#include "src/jinja/library.h"
#include "src/jinja/operators.h"

namespace gabbro::jinja {
namespace {

Value filter_sort(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "sort", args, {"reverse", "case_sensitive", "attribute"});
  const bool folds = !bound.truth(1, false);
  std::vector<AttributePath> paths;  // "age,name" sorts by age, then by name
  const Value attribute = bound.get(2, {});
  if (attribute.is_string()) {
    const std::string& names = attribute.string();
    for (size_t begin = 0; begin <= names.size();) {
      const size_t end = std::min(names.find(',', begin), names.size());
      paths.emplace_back(runtime, Value(names.substr(begin, end - begin)));
      begin = end + 1;
    }
  } else {
    paths.emplace_back(runtime, attribute);
  }
  const auto key = [&](const Value& item) {
    std::vector<Value> parts;
    for (const AttributePath& path : paths) {
      const Value part = path.get(runtime, item);
      parts.push_back(folds ? fold_case(runtime, part) : part);
    }
    return runtime.list(std::move(parts));
  };
  return runtime.list(sort_by(runtime, collect(runtime, value), key, bound.truth(0, false)));
}

Value filter_unique(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "unique", args, {"case_sensitive", "attribute"});
  const bool folds = !bound.truth(0, false);
  const AttributePath path(runtime, bound.get(1, {}));
  const auto items = iterate(runtime, value);
  auto seen = std::make_shared<std::unordered_set<std::string>>();
  return generate(runtime, value, [items, folds, path, seen](Runtime& inner, Value* item) {
    while (items->next(inner, item)) {
      const Value key = path.get(inner, *item);
      const auto [hashed, is_new] = seen->insert(hash_key(inner, folds ? fold_case(inner, key) : key));
      inner.reserve(is_new ? hashed->size() + 64 : 0);
      if (is_new) return true;
    }
    return false;
  });
}

template <Order better>
Value filter_extreme(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "min", args, {"case_sensitive", "attribute"});
  const bool folds = !bound.truth(0, false);
  const AttributePath path(runtime, bound.get(1, {}));
  const auto items = iterate(runtime, value);
  Value best, best_key;
  if (!items->next(runtime, &best)) return Value::undefined("No aggregated item, sequence was empty.");
  const auto key = [&](const Value& item) {
    const Value found = path.get(runtime, item);
    return folds ? fold_case(runtime, found) : found;
  };
  best_key = key(best);
  for (Value item; items->next(runtime, &item);) {
    Value item_key = key(item);
    if (ordered(runtime, better, item_key, best_key)) {
      best = item;
      best_key = std::move(item_key);
    }
  }
  return best;
}

Value filter_groupby(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  const AttributePath path(runtime, bound[0]);
  const Value otherwise = bound.get(1, {});
  const bool folds = !bound.truth(2, false);
  const auto key = [&](const Value& item) {
    const Value found = path.get(runtime, item, &otherwise);
    return folds ? fold_case(runtime, found) : found;
  };
  const std::vector<Value> items = sort_by(runtime, collect(runtime, value), key, false);
  std::vector<Value> groups;
  for (size_t begin = 0; begin < items.size();) {
    const Value group_key = key(items[begin]);
    size_t end = begin + 1;
    while (end < items.size() && equal(runtime, group_key, key(items[end]))) ++end;
    const auto at = [&](size_t i) { return items.begin() + static_cast<std::ptrdiff_t>(i); };
    const Value members = runtime.list({at(begin), at(end)});
    const Value name = folds ? path.get(runtime, items[begin], &otherwise) : group_key;
    groups.push_back(runtime.sequence({name, members}, true, true));
    begin = end;
  }
  return runtime.list(std::move(groups));
}

Value filter_dictsort(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "dictsort", args, {"case_sensitive", "by", "reverse"});
  const bool folds = !bound.truth(0, false);
  const std::string by = bound.string(1, "key");
  if (by != "key" && by != "value") throw runtime.error("You can only sort by either \"key\" or \"value\"");
  require_defined(runtime, value);
  if (!value.is_dict()) throw runtime.error("'{}' object has no attribute 'items'", value.type_name());
  std::vector<Value> pairs;
  for (const auto& [key, item] : value.dict().entries()) pairs.push_back(runtime.tuple({key, item}));
  const auto key = [&](const Value& pair) {
    const Value& part = pair.items()[by == "key" ? 0 : 1];
    return folds ? fold_case(runtime, part) : part;
  };
  return runtime.list(sort_by(runtime, std::move(pairs), key, bound.truth(2, false)));
}

constexpr FilterEntry kOrderFilters[] = {
    {"sort", filter_sort},
    {"unique", filter_unique},
    {"min", filter_extreme<Order::kLess>},
    {"max", filter_extreme<Order::kGreater>},
    {"groupby", filter_groupby},
    {"dictsort", filter_dictsort},
};

}  // namespace

std::span<const FilterEntry> order_filters() { return kOrderFilters; }

}  // namespace gabbro::jinja
