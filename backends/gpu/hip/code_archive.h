// The plugin's device code: one ELF file for each kernel source and target, each packed by zstd as a separate frame, so
// that a device unpacks only what it loads. A text index is ahead of the frames: a header with the number of images,
// then for each "TARGET SOURCE BYTES FRAME_BYTES DICTIONARY". The build writes the archive (code_packer.h).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gabbro::gpu::hip {

inline constexpr std::string_view kArchiveHeader = "gabbro code 1";

class CodeArchive {
 public:
  // Reads the index of `bytes`, which must outlive the archive; empty bytes are an archive without images. Throws
  // ApiError if the index is damaged.
  explicit CodeArchive(std::string_view bytes);

  std::vector<std::string_view> targets() const;
  std::vector<std::string_view> sources(std::string_view target) const;
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
