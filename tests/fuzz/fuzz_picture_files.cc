// Any bytes as a PNG or JPEG file: an Error of one line, or a picture within the limits whose every byte can be read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "src/base/error.h"
#include "src/images/exif.h"
#include "src/images/jpeg.h"
#include "src/images/png.h"
#include "src/images/read_picture.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const gabbro::images::PictureLimits limits{.side = 2048, .pixels = 1 << 20, .text_bytes = 1 << 16};
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  size_t sum = gabbro::images::read_exif(file).user_comment.size();
  for (const bool png : {true, false}) {
    try {
      const gabbro::images::Picture picture = gabbro::images::to_rgb(
          png ? gabbro::images::decode_png(file, "x.png", limits) : gabbro::images::decode_jpeg(file, "x.jpg", limits));
      if (picture.pixels.size() != picture.size() || picture.width > limits.side) std::abort();
      for (const uint8_t byte : picture.pixels) sum += byte;
      for (const auto& [key, text] : picture.texts) sum += key.size() + text.size();
    } catch (const gabbro::Error& error) {
      if (std::strchr(error.what(), '\n') != nullptr) std::abort();
    }
  }
  volatile size_t sink = sum;
  (void)sink;
  return 0;
}
