// The build id of an ELF file (NT_GNU_BUILD_ID).
#pragma once

#include <string>

namespace gabbro::report {

// Hexadecimal digits; empty for a file without one.
std::string build_id(const std::string& path);

}  // namespace gabbro::report
