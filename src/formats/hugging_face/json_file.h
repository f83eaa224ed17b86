// The JSON files of a model folder.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace gabbro {

// The document of a text, which may begin with the byte order mark of UTF-8; the order of its keys is kept. Throws
// bad_input that begins with `name`: no JSON, in UTF-16 or UTF-32, nested deeper than 100, or a key twice in one
// object.
nlohmann::ordered_json parse_plain_json(std::string_view text, const std::string& name);

// Parses JSON as Python writes it: its Infinity, -Infinity and NaN, which JSON has not, are taken as
// {"__float__": "Infinity"} and so on.
nlohmann::ordered_json parse_json(std::string_view text, const std::string& name);

// Parses a file of at most `limit` bytes.
nlohmann::ordered_json read_json_file(const std::string& path, size_t limit = size_t{64} << 20);

}  // namespace gabbro
