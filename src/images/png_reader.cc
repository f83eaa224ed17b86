// Reading PNG files.
#include <png.h>

#include <csetjmp>
#include <cstring>

#include "src/base/error.h"
#include "src/images/exif.h"
#include "src/images/png.h"
#include "src/images/upright.h"

namespace gabbro::images {
namespace {

struct PngReader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::byte> rest{};
  std::string error{};
  std::vector<png_bytep> rows{};

  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
};

void take_bytes(png_structp png, png_bytep target, size_t count) {
  auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader.rest.size()) png_error(png, "the file is cut off");
  std::memcpy(target, reader.rest.data(), count);
  reader.rest = reader.rest.subspan(count);
}

void keep_read_error(png_structp png, png_const_charp message) {
  static_cast<PngReader*>(png_get_error_ptr(png))->error = message;
  png_longjmp(png, 1);
}

void ignore_read_warning(png_structp, png_const_charp) {}

// libpng reports by longjmp, so that these functions have no objects with destructors.
bool read_header(PngReader& reader, const PictureLimits& limits) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_set_read_fn(reader.png, &reader, take_bytes);
  png_set_user_limits(reader.png, static_cast<png_uint_32>(limits.side), static_cast<png_uint_32>(limits.side));
  png_set_chunk_malloc_max(reader.png, limits.text_bytes);
  png_read_info(reader.png, reader.info);
  const int color = png_get_color_type(reader.png, reader.info);
  const bool transparent = png_get_valid(reader.png, reader.info, PNG_INFO_tRNS) != 0;
  png_set_expand(reader.png);
  png_set_scale_16(reader.png);
  const bool gray_with_alpha = color == PNG_COLOR_TYPE_GRAY_ALPHA || (color == PNG_COLOR_TYPE_GRAY && transparent);
  if (gray_with_alpha) png_set_gray_to_rgb(reader.png);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  return true;
}

bool read_pixels(PngReader& reader) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_read_image(reader.png, reader.rows.data());
  png_read_end(reader.png, reader.info);
  return true;
}

std::string from_latin1(const char* text, size_t count) {
  std::string utf8;
  for (const char c : std::string_view(text, count)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      utf8 += c;
    } else {
      utf8 += static_cast<char>(0xC0 | (byte >> 6));
      utf8 += static_cast<char>(0x80 | (byte & 0x3F));
    }
  }
  return utf8;
}

void take_texts(PngReader& reader, Picture& picture, const std::string& name, const PictureLimits& limits) {
  png_textp texts = nullptr;
  const int count = png_get_text(reader.png, reader.info, &texts, nullptr);
  size_t bytes = 0;
  for (int i = 0; i < count; ++i) {
    const png_text& text = texts[i];
    const bool is_utf8 = text.compression == PNG_ITXT_COMPRESSION_NONE || text.compression == PNG_ITXT_COMPRESSION_zTXt;
    const size_t length = is_utf8 ? text.itxt_length : text.text_length;
    bytes += length;
    if (bytes > limits.text_bytes) throw bad_input("{}: its texts have more than {} bytes", name, limits.text_bytes);
    picture.texts.emplace_back(from_latin1(text.key, std::strlen(text.key)),
                               is_utf8 ? std::string(text.text, length) : from_latin1(text.text, length));
  }
}

// The orientation of the chunk eXIf (PNG 3.0, section 11.3.3.6), which libpng has checked.
int orientation_of(PngReader& reader) {
  png_bytep data = nullptr;
  png_uint_32 count = 0;
  if (png_get_eXIf_1(reader.png, reader.info, &count, &data) == 0 || data == nullptr) return 1;
  return read_exif(std::span(reinterpret_cast<const std::byte*>(data), count)).orientation;
}

// Chunks that are all in the file: libpng allocates what a chunk says that it has.
void require_whole_chunks(std::span<const std::byte> file, const std::string& name) {
  constexpr size_t kSignature = 8, kAround = 12;  // length, type and checksum
  for (size_t at = kSignature;; at += kAround) {
    if (file.size() - at < kAround) throw bad_input("{}: the file is cut off", name);
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = (length << 8) | std::to_integer<size_t>(file[at + i]);
    if (length > file.size() - at - kAround) throw bad_input("{}: the file is cut off", name);
    if (std::memcmp(&file[at + 4], "IEND", 4) == 0) return;
    at += length;
  }
}

}  // namespace

bool is_png(std::span<const std::byte> file) {
  return file.size() >= 8 && png_sig_cmp(reinterpret_cast<png_const_bytep>(file.data()), 0, 8) == 0;
}

Picture decode_png(std::span<const std::byte> file, const std::string& name, const PictureLimits& limits) {
  if (!is_png(file)) throw bad_input("{}: is not a PNG file", name);
  require_whole_chunks(file, name);
  PngReader reader{.rest = file};
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, keep_read_error, ignore_read_warning);
  if (reader.png != nullptr) reader.info = png_create_info_struct(reader.png);
  if (reader.info == nullptr) throw std::bad_alloc();
  if (!read_header(reader, limits)) throw bad_input("{}: {}", name, reader.error);
  Picture picture{.width = png_get_image_width(reader.png, reader.info),
                  .height = png_get_image_height(reader.png, reader.info),
                  .channels = png_get_channels(reader.png, reader.info)};
  if (picture.width * picture.height > limits.pixels)
    throw bad_input("{}: {} x {} pixels are more than {}", name, picture.width, picture.height, limits.pixels);
  // A row of zeros packs 1000 to 1 at most (RFC 1951): a file that is much smaller than its picture is cut off.
  if (static_cast<size_t>(picture.width * picture.height) / 8 / 1032 > file.size())
    throw bad_input("{}: {} bytes cannot hold a picture of {} x {} pixels", name, file.size(), picture.width,
                    picture.height);
  picture.pixels.resize(picture.size());
  for (int64_t row = 0; row < picture.height; ++row)
    reader.rows.push_back(picture.pixels.data() + row * picture.width * picture.channels);
  if (!read_pixels(reader)) throw bad_input("{}: {}", name, reader.error);
  take_texts(reader, picture, name, limits);
  set_upright(picture, orientation_of(reader));
  return picture;
}

}  // namespace gabbro::images
