#include "src/text/grammar/json/keywords.h"

#include <algorithm>
#include <cmath>

#include "src/base/error.h"
#include "src/text/grammar/json/formats.h"

namespace gabbro::text::grammar {
namespace {

constexpr int32_t kMostCount = 10'000'000;

bool is_draft_with_plain_references(const SchemaJson& root) {
  if (!root.is_object()) return false;
  const auto dialect = root.find("$schema");
  if (dialect == root.end() || !dialect->is_string()) return false;
  const auto& name = dialect->get_ref<const std::string&>();
  return name.find("draft-03") != name.npos || name.find("draft-04") != name.npos ||
         name.find("draft-06") != name.npos || name.find("draft-07") != name.npos;
}

}  // namespace

const KeywordReader::Keyword* KeywordReader::find(std::string_view name) {
  using K = KeywordReader;
  static constexpr Keyword kKeywords[] = {
      {"type", &K::type},
      {"enum", &K::values},
      {"const", &K::constant},
      {"$ref", &K::reference},
      {"allOf", &K::all_of},
      {"anyOf", &K::any_of},
      {"oneOf", &K::one_of},
      {"minimum", &K::minimum},
      {"maximum", &K::maximum},
      {"exclusiveMinimum", &K::exclusive_minimum},
      {"exclusiveMaximum", &K::exclusive_maximum},
      {"multipleOf", &K::multiple_of},
      {"minLength", &K::min_length},
      {"maxLength", &K::max_length},
      {"pattern", &K::pattern},
      {"format", &K::format},
      {"prefixItems", &K::prefix_items},
      {"items", &K::items},
      {"additionalItems", &K::sibling},
      {"minItems", &K::min_items},
      {"maxItems", &K::max_items},
      {"uniqueItems", &K::unique_items},
      {"properties", &K::sibling},
      {"patternProperties", &K::sibling},
      {"additionalProperties", &K::sibling},
      {"required", &K::required},
      {"propertyNames", &K::property_names},
      {"minProperties", &K::min_properties},
      {"maxProperties", &K::max_properties},
      {"dependentRequired", &K::dependent_required},
      {"dependentSchemas", &K::dependent_schemas},
      {"dependencies", &K::dependencies},
      {"unevaluatedProperties", &K::unevaluated},
      {"unevaluatedItems", &K::unevaluated},
      {"$schema", &K::annotation},
      {"$id", &K::annotation},
      {"id", &K::annotation},
      {"$anchor", &K::annotation},
      {"$comment", &K::annotation},
      {"$defs", &K::annotation},
      {"definitions", &K::annotation},
      {"title", &K::annotation},
      {"description", &K::annotation},
      {"default", &K::annotation},
      {"example", &K::annotation},
      {"examples", &K::annotation},
      {"deprecated", &K::annotation},
      {"readOnly", &K::annotation},
      {"writeOnly", &K::annotation},
      {"discriminator", &K::annotation},
      {"contentEncoding", &K::annotation},
      {"contentMediaType", &K::annotation},
      {"contentSchema", &K::annotation},
  };
  const auto found = std::ranges::find(kKeywords, name, [](const Keyword& one) { return std::string_view(one.name); });
  return found != std::end(kKeywords) ? found : nullptr;
}

void KeywordReader::read() {
  const auto reference = schema_.find("$ref");
  if (reference != schema_.end() && is_draft_with_plain_references(document_.root_))
    return this->reference(*reference, place("$ref"));  // up to draft 7 its siblings do not count
  for (const auto& [name, value] : schema_.items()) {
    const std::string at = pointer_ + pointer_step(name);
    if (const Keyword* const keyword = find(name)) {
      (this->*keyword->read)(value, at);
    } else if (!name.starts_with("x-")) {
      unsupported(value, at);
    }
  }
  read_properties();
  read_elements();
}

void KeywordReader::unsupported(const SchemaJson&, const std::string& at) {
  SchemaDocument::refuse(at, "the keyword is not supported");
}

const SchemaJson* KeywordReader::member(const char* name) const {
  const auto found = schema_.find(name);
  return found != schema_.end() ? &*found : nullptr;
}

bool KeywordReader::is_alone() const {
  constexpr const char* kOthers[] = {"$ref", "allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies"};
  return std::ranges::none_of(kOthers, [&](const char* name) { return schema_.contains(name); });
}

const std::string& KeywordReader::text(const SchemaJson& value, const std::string& at) const {
  if (!value.is_string()) SchemaDocument::refuse(at, "expected a string");
  return value.get_ref<const std::string&>();
}

int32_t KeywordReader::count(const SchemaJson& value, const std::string& at) const {
  const double number = value.is_number() ? value.get<double>() : -1;
  if (number < 0 || number != std::floor(number)) SchemaDocument::refuse(at, "expected a whole number of 0 or more");
  if (number > kMostCount) SchemaDocument::refuse(at, fmt::format("counts go up to {}", kMostCount));
  return static_cast<int32_t>(number);
}

std::vector<NodeId> KeywordReader::schemas(const SchemaJson& value, const std::string& at) {
  if (!value.is_array() || value.empty()) SchemaDocument::refuse(at, "expected a list of schemas");
  std::vector<NodeId> ids;
  for (size_t i = 0; i < value.size(); ++i) ids.push_back(document_.add(value[i], fmt::format("{}/{}", at, i)));
  return ids;
}

void KeywordReader::type(const SchemaJson& value, const std::string& at) {
  constexpr std::pair<const char*, uint8_t> kNames[] = {
      {"null", kNullType},     {"boolean", kBooleanType}, {"number", kNumberType}, {"integer", kNumberType},
      {"string", kStringType}, {"array", kArrayType},     {"object", kObjectType}};
  uint8_t types = 0;
  bool number = false, integer = false;
  const SchemaJson list = value.is_array() ? value : SchemaJson::array({value});
  for (const SchemaJson& one : list) {
    const std::string& name = text(one, at);
    const auto found = std::ranges::find(kNames, name, [](const auto& pair) { return std::string(pair.first); });
    if (found == std::end(kNames)) SchemaDocument::refuse(at, fmt::format("'{}' is not a type", name));
    types |= found->second;
    number = number || name == "number";
    integer = integer || name == "integer";
  }
  shape_.types &= types;
  if (integer && !number) {
    shape_.number.integer = true;
    shape_.constrained |= kNumberType;
  }
}

void KeywordReader::values(const SchemaJson& value, const std::string& at) {
  if (!value.is_array() || value.empty()) SchemaDocument::refuse(at, "expected a list of values");
  std::vector<SchemaJson> left;
  for (const SchemaJson& one : value) {
    if (!shape_.values || std::ranges::find(*shape_.values, one) != shape_.values->end()) left.push_back(one);
  }
  shape_.values = std::move(left);
}

void KeywordReader::constant(const SchemaJson& value, const std::string& at) { values(SchemaJson::array({value}), at); }

void KeywordReader::reference(const SchemaJson& value, const std::string& at) {
  open_.todo.push_back(document_.find(text(value, at), at));
}

void KeywordReader::all_of(const SchemaJson& value, const std::string& at) {
  const std::vector<NodeId> all = schemas(value, at);
  open_.todo.insert(open_.todo.end(), all.rbegin(), all.rend());
}

void KeywordReader::any_of(const SchemaJson& value, const std::string& at) {
  open_.groups.push_back(schemas(value, at));
}

void KeywordReader::one_of(const SchemaJson& value, const std::string& at) {
  const std::vector<NodeId> all = schemas(value, at);
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (document_.are_disjoint(all[j], all[i])) continue;
      SchemaDocument::refuse(at, fmt::format("a value may match both {} and {}; use anyOf if it may", j, i));
    }
  }
  open_.groups.push_back(all);
}

void KeywordReader::set_least(const Decimal& value, bool exclusive) {
  std::optional<Bound>& least = shape_.number.least;
  const int order = least ? compare(value, least->value) : 1;
  if (order > 0 || (order == 0 && exclusive)) least = Bound{value, exclusive};
  shape_.constrained |= kNumberType;
}

void KeywordReader::set_most(const Decimal& value, bool exclusive) {
  std::optional<Bound>& most = shape_.number.most;
  const int order = most ? compare(value, most->value) : -1;
  if (order < 0 || (order == 0 && exclusive)) most = Bound{value, exclusive};
  shape_.constrained |= kNumberType;
}

void KeywordReader::minimum(const SchemaJson& value, const std::string& at) {
  if (!value.is_number()) SchemaDocument::refuse(at, "expected a number");
  const SchemaJson* const exclusive = member("exclusiveMinimum");
  set_least(decimal_of(value), exclusive != nullptr && *exclusive == true);
}

void KeywordReader::maximum(const SchemaJson& value, const std::string& at) {
  if (!value.is_number()) SchemaDocument::refuse(at, "expected a number");
  const SchemaJson* const exclusive = member("exclusiveMaximum");
  set_most(decimal_of(value), exclusive != nullptr && *exclusive == true);
}

// A boolean belongs to `minimum`, as in draft 4.
void KeywordReader::exclusive_minimum(const SchemaJson& value, const std::string& at) {
  if (value.is_boolean()) return;
  if (!value.is_number()) SchemaDocument::refuse(at, "expected a number");
  set_least(decimal_of(value), true);
}

void KeywordReader::exclusive_maximum(const SchemaJson& value, const std::string& at) {
  if (value.is_boolean()) return;
  if (!value.is_number()) SchemaDocument::refuse(at, "expected a number");
  set_most(decimal_of(value), true);
}

void KeywordReader::multiple_of(const SchemaJson& value, const std::string& at) {
  if (!value.is_number() || value.get<double>() <= 0) SchemaDocument::refuse(at, "expected a number above 0");
  shape_.number.multiples_of.push_back(decimal_of(value));
  shape_.constrained |= kNumberType;
}

void KeywordReader::min_length(const SchemaJson& value, const std::string& at) {
  shape_.string.least = std::max(shape_.string.least, count(value, at));
  shape_.string.pointer = at;
  shape_.constrained |= kStringType;
}

void KeywordReader::max_length(const SchemaJson& value, const std::string& at) {
  shape_.string.most = std::min(shape_.string.most, count(value, at));
  shape_.string.pointer = at;
  shape_.constrained |= kStringType;
}

void KeywordReader::pattern(const SchemaJson& value, const std::string& at) {
  shape_.string.patterns.push_back({text(value, at), at});
  shape_.string.pointer = at;
  shape_.constrained |= kStringType;
}

void KeywordReader::format(const SchemaJson& value, const std::string& at) {
  shape_.string.formats.push_back({text(value, at), at});
  shape_.string.pointer = at;
  shape_.constrained |= kStringType;
}

void KeywordReader::prefix_items(const SchemaJson& value, const std::string& at) {
  static_cast<void>(schemas(value, at));
}
void KeywordReader::items(const SchemaJson&, const std::string&) {}

void KeywordReader::min_items(const SchemaJson& value, const std::string& at) {
  shape_.array.least = std::max(shape_.array.least, count(value, at));
  shape_.array.pointer = at;
  shape_.constrained |= kArrayType;
}

void KeywordReader::max_items(const SchemaJson& value, const std::string& at) {
  shape_.array.most = std::min(shape_.array.most, count(value, at));
  shape_.array.pointer = at;
  shape_.constrained |= kArrayType;
}

void KeywordReader::unique_items(const SchemaJson& value, const std::string& at) {
  if (!value.is_boolean()) SchemaDocument::refuse(at, "expected true or false");
  if (value.get<bool>()) unsupported(value, at);
}

void KeywordReader::required(const SchemaJson& value, const std::string& at) {
  if (value.is_boolean()) return unsupported(value, at);  // draft 3
  if (!value.is_array()) SchemaDocument::refuse(at, "expected a list of names");
  for (const SchemaJson& one : value) {
    const std::string& name = text(one, at);
    std::vector<std::string>& names = shape_.object.required;
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  shape_.object.pointer = at;
  shape_.constrained |= kObjectType;
}

void KeywordReader::property_names(const SchemaJson& value, const std::string& at) {
  shape_.object.names.push_back(document_.add(value, at));
  shape_.object.pointer = at;
  shape_.constrained |= kObjectType;
}

void KeywordReader::min_properties(const SchemaJson& value, const std::string& at) {
  shape_.object.least = std::max(shape_.object.least, count(value, at));
  shape_.object.pointer = at;
  shape_.constrained |= kObjectType;
}

void KeywordReader::max_properties(const SchemaJson& value, const std::string& at) {
  shape_.object.most = std::min(shape_.object.most, count(value, at));
  shape_.object.pointer = at;
  shape_.constrained |= kObjectType;
}

// Either the property is absent, or the schema matches.
void KeywordReader::depend_on(const std::string& name, NodeId schema, const std::string& at) {
  const SchemaJson absent{{"properties", {{name, false}}}};
  // Another pointer than the schema's: its property `name` may have a schema too.
  open_.groups.push_back({document_.own(absent, at + " (absent)"), schema});
}

void KeywordReader::dependent_required(const SchemaJson& value, const std::string& at) {
  if (!value.is_object()) SchemaDocument::refuse(at, "expected an object of lists of names");
  for (const auto& [name, names] : value.items())
    depend_on(name, document_.own(SchemaJson{{"required", names}}, at), at + pointer_step(name));
}

void KeywordReader::dependent_schemas(const SchemaJson& value, const std::string& at) {
  if (!value.is_object()) SchemaDocument::refuse(at, "expected an object of schemas");
  for (const auto& [name, schema] : value.items())
    depend_on(name, document_.add(schema, at + pointer_step(name)), at + pointer_step(name));
}

void KeywordReader::dependencies(const SchemaJson& value, const std::string& at) {
  if (!value.is_object()) SchemaDocument::refuse(at, "expected an object");
  for (const auto& [name, one] : value.items()) {
    const std::string place = at + pointer_step(name);
    depend_on(name, one.is_array() ? document_.own(SchemaJson{{"required", one}}, at) : document_.add(one, place),
              place);
  }
}

// Without other schemas that apply to the same value, it is additionalProperties or items.
void KeywordReader::unevaluated(const SchemaJson& value, const std::string& at) {
  if (!is_alone() && value != true) unsupported(value, at);
}

}  // namespace gabbro::text::grammar
