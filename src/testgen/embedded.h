// Files of src/testgen/data, src/testgen/templates and python/gabbro/testgen that are part of the program
// (cmake/testgen.cmake).
#pragma once

#include <string_view>
#include <vector>

namespace gabbro::testgen {

struct EmbeddedFile {
  std::string_view name;  // "data/types.json", "templates/support.py", "run/runner.py"
  std::string_view text;
};

const std::vector<EmbeddedFile>& embedded_files();

// The text of one of them, which has to exist.
std::string_view embedded_file(std::string_view name);

}  // namespace gabbro::testgen
