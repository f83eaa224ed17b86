// The JSON files of a model folder.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace gabbro {

// The document of a file; the order of its keys is kept. Throws bad_input that names the file: no JSON, nested deeper
// than 100, a key twice in one object, or more than `limit` bytes.
nlohmann::ordered_json read_json_file(const std::string& path, size_t limit = size_t{64} << 20);

}  // namespace gabbro
