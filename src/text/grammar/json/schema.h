// JSON Schema (draft 2020-12, and what earlier drafts say in another way) as rules.
#pragma once

#include <string_view>

#include "src/text/grammar/rules.h"

namespace gabbro::text::grammar {

struct SchemaOptions {
  bool closed = false;  // objects have no properties besides the listed ones, unless the schema says so
};

// Rules for documents that are valid by the schema; returns the first. Properties come in the schema's order, before
// others. Every keyword is obeyed, is an annotation, or is refused: bad_input with its JSON pointer.
RuleId add_json_schema(Rules& rules, std::string_view schema, SchemaOptions options);

// Any object of JSON.
RuleId add_json_object(Rules& rules);

}  // namespace gabbro::text::grammar
