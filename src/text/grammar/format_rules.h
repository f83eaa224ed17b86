// The grammar of any output format.
#pragma once

#include "gabbro/output_format.h"
#include "src/text/grammar/rules.h"

namespace gabbro::text::grammar {

// Without OutputFormat::after. Throws bad_input that says what is wrong, or not supported, and where.
RuleId add_format(Rules& rules, const OutputFormat& format);

}  // namespace gabbro::text::grammar
