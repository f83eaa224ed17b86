// Recognizes a file that was given for a model and is not one that we read: a Git LFS pointer, a web page, an archive,
// a checkpoint of another program. For messages; nothing here reads such files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gabbro {

struct ForeignFile {
  std::string what;  // "a Git LFS pointer, not the model itself"
  std::string hint;  // what to do about it
};

// By the first bytes (some hundred are enough) and the name. Nothing for a GGUF file, and for what is not known.
std::optional<ForeignFile> recognize_file(std::span<const std::byte> bytes, std::string_view path);

// The hint for a folder that was given for a model: the GGUF files in it, or what else there is.
std::string folder_hint(const std::string& folder);

// The hint for a file of `size` bytes that ends too early; `expected` is what it should have, where that is known.
std::string unfinished_hint(size_t size, std::optional<uint64_t> expected = {});

}  // namespace gabbro
