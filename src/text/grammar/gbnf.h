// GBNF, llama.cpp's language of grammars: rules of literals, character classes, groups, alternatives and repetitions.
#pragma once

#include <string_view>

#include "src/text/grammar/rules.h"

namespace gabbro::text::grammar {

// Adds the rules of `source` and returns its rule `root`. Throws bad_input that names line and column. Tokens in angle
// brackets are not supported.
RuleId parse_gbnf(Rules& rules, std::string_view source);

}  // namespace gabbro::text::grammar
