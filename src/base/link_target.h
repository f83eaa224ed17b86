// Symbolic links at the end of a path that is written to.
#pragma once

#include <string>

namespace gabbro {

// The path that a write to `path` makes or replaces: links are followed, also one whose target is missing.
// Throws failed() for links that form a loop.
std::string link_target(const std::string& path);

}  // namespace gabbro
