// The grammar of answers that call tools.
#pragma once

#include <string_view>

#include "src/text/grammar/pattern.h"
#include "src/text/grammar/rules.h"

namespace gabbro::text::grammar {

// `description`: JSON as OutputFormat::Kind::kToolCalls has it. Throws bad_input that names the tool, for a schema that
// is wrong or not supported.
RuleId add_tool_calls(Rules& rules, std::string_view description);

// Any text up to and with the first match of `end`.
ExprId text_through(Rules& rules, Pattern end);

}  // namespace gabbro::text::grammar
