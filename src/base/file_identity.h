// Tells a file from its later states, and from all others.
#pragma once

#include <string>

namespace gabbro {

// Device, inode, size, and the times of the last writing and of the last change, which programs cannot set: a file with
// an equal identity was not written to since. "gone" if there is none.
std::string file_identity(const std::string& path);

}  // namespace gabbro
