// MODEL on the command line, and what may stand in for it; gabbro::resolve_model (src/hub/model_cache.h) says what
// it means.
#pragma once

#include <string>

#include "apps/cli/command_line.h"
#include "src/formats/file_type.h"

namespace gabbro::cli {

// MODEL, also -m; refuses pipes and standard input.
Option add_model(Command command, std::string& model);

// --shape: a model of random weights, or of none.
Option add_shape(Command command, std::string& shape);
// --type, and what it means; throws bad_input that lists the types there are.
Option add_type(Command command, std::string& type);
const FileType& parse_type(const std::string& name);

}  // namespace gabbro::cli
