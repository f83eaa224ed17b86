// The functions that templates call: Go's text/template's, and json and currentDate of Ollama.
#pragma once

#include <ctime>
#include <span>
#include <string>
#include <string_view>

#include "src/text/chat/go_template/value.h"

namespace gabbro::text::go {

bool is_function(std::string_view name);

// "and" and "or" are left to the caller, who evaluates no more of their arguments than is needed. Throws bad_input for
// arguments that the function does not take.
Value call(const std::string& name, std::span<const Value> arguments, std::time_t now);

}  // namespace gabbro::text::go
