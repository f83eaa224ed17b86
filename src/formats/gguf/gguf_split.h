// Models in several files, name-00001-of-00003.gguf and so on, as llama-gguf-split writes them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "src/base/mapped_file.h"
#include "src/formats/gguf/gguf_parse.h"

namespace gabbro::gguf {

struct SplitName {
  std::string prefix;  // all before "-00001-of-00003.gguf"
  uint32_t number;     // of the part, from 0
  uint32_t count;

  std::string path(uint32_t part) const;
};

// Empty where the name is not of that form; "of-00001" is.
std::optional<SplitName> parse_split_name(std::string_view path);

// Opens one part; where one of several cannot be opened, the hint says where it has to be.
std::unique_ptr<MappedFile> open_part(const std::string& path, uint32_t number, uint32_t count);

// Throws where what the part says of itself (split.count, split.no) is not what its name says.
void check_part(const Part& part, const std::string& path, uint32_t number, uint32_t count);

}  // namespace gabbro::gguf
