// A picture in host memory: 8 bits a channel, rows from the top.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gabbro::images {

struct Picture {
  int64_t width = 0, height = 0, channels = 3;  // 1: gray, 3: RGB, 4: RGBA
  std::vector<uint8_t> pixels{};                // [height, width, channels]
  // Texts that the file has besides its pixels, as (keyword, UTF-8), in its order: ("parameters", ...).
  std::vector<std::pair<std::string, std::string>> texts{};

  size_t size() const { return static_cast<size_t>(width * height * channels); }
};

// Bounds for files that a stranger may have made; both are checked before pixels are allocated.
struct PictureLimits {
  int64_t side = 32768;                   // pixels of a side
  int64_t pixels = int64_t{1} << 28;      // of a picture: 768 MiB as RGB
  size_t text_bytes = size_t{16} << 20;   // of all texts together
  size_t file_bytes = size_t{512} << 20;  // of the file
};

}  // namespace gabbro::images
