// Recognizes a file that was given for another one and is not what we read: a Git LFS pointer, a web page, an archive,
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
  std::string what;  // "a Git LFS pointer, not the file itself"
  std::string hint;  // what to do about it
};

// The file that was expected.
enum class FileKind { kGguf, kSafetensors, kJson, kSentencePiece, kTemplate, kImportanceMatrix };

// Recognizes a file by its first bytes (some hundred are enough) and its name. Nothing for the expected kind, or if
// unknown.
std::optional<ForeignFile> recognize_file(std::span<const std::byte> bytes, std::string_view path,
                                          FileKind expected = FileKind::kGguf);

// Throws bad_input with the hint where the file is recognized: "PATH: this is not a GGUF file but a web page".
void refuse_foreign(std::span<const std::byte> bytes, std::string_view path, FileKind expected);

// True of a name that programs give a download until it is whole: "model.gguf.incomplete".
bool is_unfinished_name(std::string_view name);

// The hint for a file of `size` bytes that ends too early; `expected` is what it should have, where that is known.
std::string unfinished_hint(size_t size, std::optional<uint64_t> expected = {});

// Throws bad_input with that hint where a file of this name is empty.
void refuse_empty(const std::string& path);

}  // namespace gabbro
