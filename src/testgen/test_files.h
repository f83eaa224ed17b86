// The test files of a pack: templates whose functions are kept or left out by check, and whose imports are those that
// the rest uses.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/testgen/type_table.h"

namespace gabbro::testgen {

// A template of src/testgen/templates with values. Strings in `values` are data: they can end no literal of the Python
// text, since templates write them with tojson.
std::string render(std::string_view name, const Json& values);

// The rendered text without test functions of other checks; empty where none is left.
std::string keep_checks(const std::string& text, const std::vector<std::string>& checks);

// The text with its line "# imports" replaced.
std::string add_imports(const std::string& text);

}  // namespace gabbro::testgen
