// The package with the HIP library on this distribution.
#pragma once

#include <string>

namespace gabbro::hip_search {

// One line: the command that installs the smallest package, or where it is to be had. `root` stands for "/".
std::string package_hint(const std::string& root);

}  // namespace gabbro::hip_search
