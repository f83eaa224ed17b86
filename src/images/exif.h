// The fields of EXIF (JEITA CP-3451) that matter here.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace gabbro::images {

struct ExifFields {
  int orientation = 1;         // 1 to 8
  std::string user_comment{};  // UTF-8
};

// Reads the bytes after "Exif\0\0". Damaged fields are left out.
ExifFields read_exif(std::span<const std::byte> tiff);

}  // namespace gabbro::images
