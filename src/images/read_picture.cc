#include "src/images/read_picture.h"

#include "src/base/error.h"
#include "src/base/mapped_file.h"
#include "src/images/jpeg.h"
#include "src/images/png.h"

namespace gabbro::images {

Picture read_picture(const std::string& path, const PictureLimits& limits) {
  const MappedFile file(path);
  if (file.bytes().size() > limits.file_bytes)
    throw bad_input("{}: the file has more than {} bytes", path, limits.file_bytes);
  if (is_png(file.bytes())) return decode_png(file.bytes(), path, limits);
  if (is_jpeg(file.bytes())) return decode_jpeg(file.bytes(), path, limits);
  throw Error(ErrorCode::kBadInput, fmt::format("{}: is not a picture that is read here", path),
              "PNG and JPEG files are read");
}

bool is_opaque(const Picture& picture) {
  for (size_t i = 3; picture.channels == 4 && i < picture.pixels.size(); i += 4) {
    if (picture.pixels[i] != 255) return false;
  }
  return true;
}

Picture to_rgb(Picture picture) {
  if (picture.channels == 3) return picture;
  std::vector<uint8_t> pixels;
  pixels.reserve(static_cast<size_t>(picture.width * picture.height) * 3);
  if (picture.channels == 1) {
    for (const uint8_t gray : picture.pixels) pixels.insert(pixels.end(), 3, gray);
  } else {
    for (size_t i = 0; i + 3 < picture.pixels.size(); i += 4) {
      const unsigned alpha = picture.pixels[i + 3];
      for (size_t c = 0; c < 3; ++c)
        pixels.push_back(static_cast<uint8_t>((picture.pixels[i + c] * alpha + 255 * (255 - alpha) + 127) / 255));
    }
  }
  picture.pixels = std::move(pixels);
  picture.channels = 3;
  return picture;
}

}  // namespace gabbro::images
