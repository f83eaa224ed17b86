// Keywords that belong together: properties of objects, and elements of arrays.
#include <algorithm>

#include "src/base/error.h"
#include "src/text/grammar/json/keywords.h"

namespace gabbro::text::grammar {
namespace {

constexpr size_t kMostFirstItems = 1000;

}  // namespace

void KeywordReader::read_properties() {
  PropertySet set;
  if (const SchemaJson* const properties = member("properties")) {
    if (!properties->is_object()) SchemaDocument::refuse(place("properties"), "expected an object of schemas");
    for (const auto& [name, schema] : properties->items())
      set.properties.emplace_back(name, document_.add(schema, place("properties") + pointer_step(name)));
  }
  if (const SchemaJson* const patterns = member("patternProperties")) {
    if (!patterns->is_object()) SchemaDocument::refuse(place("patternProperties"), "expected an object of schemas");
    for (const auto& [regex, schema] : patterns->items()) {
      const std::string at = place("patternProperties") + pointer_step(regex);
      set.patterns.push_back({{regex, at}, document_.add(schema, at)});
    }
  }
  const SchemaJson* const type = member("type");
  const bool is_object = member("properties") != nullptr || (type != nullptr && *type == "object");
  if (const SchemaJson* const additional = member("additionalProperties")) {
    set.additional = document_.add(*additional, place("additionalProperties"));
  } else if (const SchemaJson* const rest = member("unevaluatedProperties")) {
    set.additional = document_.add(*rest, place("unevaluatedProperties"));
  } else if (document_.closed_ && is_object) {
    shape_.object.closing = document_.own(SchemaJson(false), "#");
  }
  if (set.properties.empty() && set.patterns.empty() && !set.additional && !shape_.object.closing) return;
  shape_.object.sets.push_back(std::move(set));
  if (shape_.object.pointer.empty()) shape_.object.pointer = pointer_;
  shape_.constrained |= kObjectType;
}

void KeywordReader::read_elements() {
  const SchemaJson* items = member("items");
  std::string items_at = place("items");
  std::vector<Conjunction> first;
  const auto add_first = [&](const SchemaJson& list, const std::string& at) {
    if (list.size() > kMostFirstItems) SchemaDocument::refuse(at, fmt::format("more than {} items", kMostFirstItems));
    for (size_t i = 0; i < list.size(); ++i) first.push_back({document_.add(list[i], fmt::format("{}/{}", at, i))});
  };
  if (const SchemaJson* const prefix = member("prefixItems")) add_first(*prefix, place("prefixItems"));
  if (items != nullptr && items->is_array()) {  // up to draft 2019-09
    add_first(*items, place("items"));
    items = member("additionalItems");
    items_at = place("additionalItems");
  }
  if (items == nullptr && member("unevaluatedItems") != nullptr) {
    items = member("unevaluatedItems");
    items_at = place("unevaluatedItems");
  }
  if (items == nullptr && first.empty()) return;
  Conjunction rest;
  if (items != nullptr) rest.push_back(document_.add(*items, items_at));
  // Each element matches this schema and those that were read before.
  ArrayShape& array = shape_.array;
  const auto join = [](Conjunction& to, const Conjunction& other) {
    to.insert(to.end(), other.begin(), other.end());
    std::ranges::sort(to);
    to.erase(std::unique(to.begin(), to.end()), to.end());
  };
  for (size_t i = 0; i < std::max(first.size(), array.first.size()); ++i) {
    if (i == array.first.size()) array.first.push_back(array.rest);
    join(array.first[i], i < first.size() ? first[i] : rest);
  }
  join(array.rest, rest);
  shape_.constrained |= kArrayType;
}

}  // namespace gabbro::text::grammar
