// Values that are nearly JSON: Python's literals, and Gemma's objects with bare names.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gabbro::text {

// The value as JSON; nothing where it is none. Strings are in ' or ", or between two `quote` where it is not empty;
// names of members are strings or bare; tuples are lists; True, False and None are words.
std::optional<std::string> json_of_loose(std::string_view text, std::string_view quote = {});

}  // namespace gabbro::text
