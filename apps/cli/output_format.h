// --schema, --grammar and --regex: the form that answers have to have.
#pragma once

#include <optional>
#include <string>

#include "apps/cli/command_line.h"
#include "gabbro/output_format.h"

namespace gabbro::cli {

struct FormatOptions {
  std::optional<std::string> schema;   // JSON, or a file
  bool strict = false;                 // objects of the schema have listed properties only, unless it says otherwise
  std::optional<std::string> grammar;  // a file
  std::optional<std::string> regex;
};

void add_output_format(Command command, FormatOptions& options);
// Throws bad_input that names the option for more than one of them, and for a source that does not compile.
OutputFormat read_output_format(const FormatOptions& options);

}  // namespace gabbro::cli
