// Text from files in messages.
#pragma once

#include <string>
#include <string_view>

namespace gabbro {

// Text from a file for a message: in quotes, without control characters, and not too long.
std::string quote(std::string_view text);

}  // namespace gabbro
