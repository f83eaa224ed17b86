// The plugin's device code: one ELF file for each kernel source and target, each packed by zstd as a separate frame, so
// that a device unpacks only what it loads. A text index is ahead of the frames. pack_code writes an archive in the
// build; the plugin embeds it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gabbro::gpu::hip {

struct CodeImage {
  std::string target;  // "gfx1100", "gfx11-generic"
  std::string source;  // "rms_norm", of kernels/rows/rms_norm.cc
  std::string elf;
};

// Throws ApiError if an image is not an ELF file of its target, or is there twice.
std::string pack_code(std::vector<CodeImage> images);

class CodeArchive {
 public:
  // Reads the index of `bytes`, which must outlive the archive; empty bytes are an archive without images. Throws
  // ApiError if the index is damaged.
  explicit CodeArchive(std::string_view bytes);

  std::vector<std::string_view> targets() const;
  // The ELF file; nothing if the archive does not have it. Throws ApiError if it is damaged.
  std::optional<std::vector<char>> unpack(std::string_view target, std::string_view source) const;

 private:
  struct Entry {
    std::string_view target, source;
    size_t bytes;  // unpacked
    std::string_view frame;
    // Index of the entry whose unpacked bytes are the frame's dictionary: the same source for a related target. The
    // entry's own index if there is none.
    size_t dictionary;
  };

  std::vector<char> unpack(const Entry& entry) const;

  std::vector<Entry> entries_;
};

}  // namespace gabbro::gpu::hip
