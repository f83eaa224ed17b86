// A schema of JSON without references and combinations: one alternative of what a value may be.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/text/grammar/json/number.h"

namespace gabbro::text::grammar {

using SchemaJson = nlohmann::ordered_json;
using NodeId = uint32_t;                  // a schema within the document
using Conjunction = std::vector<NodeId>;  // ascending; a value has to match all of them

enum TypeBit : uint8_t {
  kNullType = 1,
  kBooleanType = 2,
  kNumberType = 4,
  kStringType = 8,
  kArrayType = 16,
  kObjectType = 32
};
inline constexpr uint8_t kAllTypes = 63;
TypeBit type_of(const SchemaJson& value);

// A constraint with the place that asks for it.
struct Sourced {
  std::string text, pointer;
};

struct StringShape {
  int32_t least = 0, most = kUnbounded;  // characters
  std::vector<Sourced> patterns{}, formats{};
  std::string pointer{};  // of the last constraint
};

struct ArrayShape {
  std::vector<Conjunction> first{};  // of the first elements
  Conjunction rest{};                // of the others
  int32_t least = 0, most = kUnbounded;
  std::string pointer{};
};

// The properties that one schema describes: properties of another do not count for its additionalProperties.
struct PropertySet {
  std::vector<std::pair<std::string, NodeId>> properties{};
  struct ByPattern {
    Sourced regex;
    NodeId schema;
  };
  std::vector<ByPattern> patterns{};
  std::optional<NodeId> additional{};
};

struct ObjectShape {
  std::vector<PropertySet> sets{};
  std::vector<std::string> required{};
  std::optional<NodeId> closing{};  // of names that no set describes, if no set has `additional`
  Conjunction names{};              // propertyNames
  int32_t least = 0, most = kUnbounded;
  std::string pointer{};
};

struct Shape {
  uint8_t types = kAllTypes;
  std::optional<std::vector<SchemaJson>> values{};  // of enum and const
  NumberRange number{};
  StringShape string{};
  ArrayShape array{};
  ObjectShape object{};
  uint8_t constrained = 0;  // types for which there is more than `types` and `values`
};

}  // namespace gabbro::text::grammar
