// Reading JPEG files.
#include <csetjmp>
#include <cstdio>
#include <cstring>
// After <cstdio>, which the header does not include.
#include <jpeglib.h>

#include "src/base/error.h"
#include "src/images/exif.h"
#include "src/images/jpeg.h"
#include "src/images/upright.h"

namespace gabbro::images {
namespace {

struct JpegReader {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  std::jmp_buf jump{};
  char message[JMSG_LENGTH_MAX]{};
  bool damaged = false;

  ~JpegReader() { jpeg_destroy_decompress(&jpeg); }
};

void leave(j_common_ptr common) {
  auto& reader = *static_cast<JpegReader*>(common->client_data);
  common->err->format_message(common, reader.message);
  std::longjmp(reader.jump, 1);
}

// Warnings are of damaged data, which libjpeg fills in: the first one ends the reading.
void note_warning(j_common_ptr common, int level) {
  if (level < 0) leave(common);
}

// libjpeg reports by longjmp, so that these functions have no objects with destructors.
bool read_header(JpegReader& reader, std::span<const std::byte> file) {
  if (setjmp(reader.jump) != 0) return false;
  jpeg_create_decompress(&reader.jpeg);
  reader.jpeg.client_data = &reader;
  jpeg_mem_src(&reader.jpeg, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_save_markers(&reader.jpeg, JPEG_COM, 0xFFFF);
  jpeg_save_markers(&reader.jpeg, JPEG_APP0 + 1, 0xFFFF);
  jpeg_read_header(&reader.jpeg, TRUE);
  const J_COLOR_SPACE stored = reader.jpeg.jpeg_color_space;
  const bool four = stored == JCS_CMYK || stored == JCS_YCCK;
  reader.jpeg.out_color_space = four ? JCS_CMYK : stored == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
  return true;
}

bool read_rows(JpegReader& reader, uint8_t* pixels) {
  if (setjmp(reader.jump) != 0) return false;
  jpeg_start_decompress(&reader.jpeg);
  const size_t row_bytes = size_t{reader.jpeg.output_width} * static_cast<size_t>(reader.jpeg.output_components);
  while (reader.jpeg.output_scanline < reader.jpeg.output_height) {
    JSAMPROW row = pixels + reader.jpeg.output_scanline * row_bytes;
    jpeg_read_scanlines(&reader.jpeg, &row, 1);
  }
  jpeg_finish_decompress(&reader.jpeg);
  return true;
}

// Adobe's files, and so nearly all, have the four inverted.
void cmyk_to_rgb(Picture& picture, bool inverted) {
  std::vector<uint8_t> rgb;
  rgb.reserve(static_cast<size_t>(picture.width * picture.height) * 3);
  for (size_t i = 0; i + 3 < picture.pixels.size(); i += 4) {
    const uint8_t k = picture.pixels[i + 3];
    for (size_t c = 0; c < 3; ++c) {
      const unsigned ink = picture.pixels[i + c];
      const unsigned light = inverted ? ink * k : (255 - ink) * (255u - k);
      rgb.push_back(static_cast<uint8_t>((light + 127) / 255));
    }
  }
  picture.pixels = std::move(rgb);
  picture.channels = 3;
}

}  // namespace

bool is_jpeg(std::span<const std::byte> file) {
  return file.size() >= 3 && file[0] == std::byte{0xFF} && file[1] == std::byte{0xD8} && file[2] == std::byte{0xFF};
}

Picture decode_jpeg(std::span<const std::byte> file, const std::string& name, const PictureLimits& limits) {
  if (!is_jpeg(file)) throw bad_input("{}: is not a JPEG file", name);
  JpegReader reader;
  reader.jpeg.err = jpeg_std_error(&reader.errors);
  reader.jpeg.client_data = &reader;
  reader.errors.error_exit = leave;
  reader.errors.emit_message = note_warning;
  if (!read_header(reader, file)) throw bad_input("{}: {}", name, reader.message);
  Picture picture{.width = reader.jpeg.image_width, .height = reader.jpeg.image_height};
  if (picture.width > limits.side || picture.height > limits.side || picture.width * picture.height > limits.pixels)
    throw bad_input("{}: {} x {} pixels are more than {}", name, picture.width, picture.height, limits.pixels);
  // A block of 8 x 8 pixels has 6 bits at least, and four of them for each of color where that is stored at half size.
  if (static_cast<size_t>(picture.width * picture.height) / 64 / 8 > file.size())
    throw bad_input("{}: {} bytes cannot hold a picture of {} x {} pixels", name, file.size(), picture.width,
                    picture.height);
  // Before the pixels, after which libjpeg frees the markers.
  ExifFields exif;
  for (const jpeg_marker_struct* marker = reader.jpeg.marker_list; marker != nullptr; marker = marker->next) {
    const std::span data(reinterpret_cast<const std::byte*>(marker->data), marker->data_length);
    if (marker->marker == JPEG_COM) {
      picture.texts.emplace_back("comment", std::string(reinterpret_cast<const char*>(data.data()), data.size()));
    } else if (data.size() > 6 && std::memcmp(data.data(), "Exif\0", 6) == 0) {
      exif = read_exif(data.subspan(6));
    }
  }
  const bool adobe = reader.jpeg.saw_Adobe_marker != 0;
  const bool four = reader.jpeg.out_color_space == JCS_CMYK;
  picture.channels = four ? 4 : reader.jpeg.out_color_space == JCS_GRAYSCALE ? 1 : 3;
  picture.pixels.resize(picture.size());
  if (!read_rows(reader, picture.pixels.data())) throw bad_input("{}: {}", name, reader.message);
  if (!exif.user_comment.empty()) picture.texts.emplace_back("parameters", exif.user_comment);
  if (four) cmyk_to_rgb(picture, adobe);
  set_upright(picture, exif.orientation);
  return picture;
}

}  // namespace gabbro::images
