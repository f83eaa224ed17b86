// The JSON header of a safetensors file as it is written there, and back. The one place that sees the JSON library.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gabbro::safetensors {

struct HeaderEntry {
  std::string name, dtype;
  std::vector<uint64_t> shape;
  uint64_t begin = 0, end = 0;  // of the data, from the end of the header on
};

struct Header {
  std::vector<HeaderEntry> entries;
  std::map<std::string, std::string> metadata;
};

// Throws bad_input "FILE: ..." for text that is not such a header; the text begins at `at` in the file.
Header read_header(std::string_view text, std::string_view file, size_t at);
std::string write_header(const Header& header);

}  // namespace gabbro::safetensors
