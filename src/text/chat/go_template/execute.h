// Executes a template of Go's text/template. Steps, output and nesting are bounded: templates come from anywhere.
#pragma once

#include <ctime>

#include "src/text/chat/go_template/node.h"

namespace gabbro::text::go {

// The text that the nodes write for `data`, with the templates that `tree` defines. Throws bad_input, "template: ...",
// where Go does.
MarkedText execute(const Nodes& nodes, const Tree& tree, const Value& data, std::time_t now);

}  // namespace gabbro::text::go
