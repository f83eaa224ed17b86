// JSON Schema (draft 2020-12, and what earlier drafts say in another way) as rules.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/grammar/json/value_spelling.h"
#include "src/text/grammar/rules.h"

namespace gabbro::text::grammar {

struct SchemaOptions {
  bool closed = false;  // objects have no properties besides the listed ones, unless the schema says so
};

// Rules for documents that are valid by the schema; returns the first. Properties come in the schema's order, before
// others. Every keyword is obeyed, is an annotation, or is refused: bad_input with its JSON pointer.
RuleId add_json_schema(Rules& rules, std::string_view schema, SchemaOptions options);

// The properties of an object's schema, for forms that write each of them apart.
struct PropertyForm {
  std::set<std::string> texts{};                      // names of properties that are written as texts
  ValueSpelling text{.bare_strings = true}, other{};  // values of these, and of others
};
struct PropertyRule {
  std::string name;
  bool required;
  ExprId value;
};
// Listed properties, and required ones, in the schema's order; others are left out. Throws bad_input as
// add_json_schema(), and for a schema that describes objects in another manner than by its properties.
std::vector<PropertyRule> add_schema_properties(Rules& rules, std::string_view schema, SchemaOptions options,
                                                const PropertyForm& form);

// Any object of JSON.
RuleId add_json_object(Rules& rules);

}  // namespace gabbro::text::grammar
