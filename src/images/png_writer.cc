// Writing PNG files.
#include <png.h>

#include <csetjmp>
#include <cstring>
#include <optional>

#include "src/base/error.h"
#include "src/images/png.h"

namespace gabbro::images {
namespace {

// The text in Latin-1; nothing where it has other characters.
std::optional<std::string> to_latin1(const std::string& text) {
  std::string latin1;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80) {
      latin1 += text[i];
    } else if ((byte == 0xC2 || byte == 0xC3) && i + 1 < text.size()) {
      latin1 += static_cast<char>(((byte & 3) << 6) | (static_cast<unsigned char>(text[++i]) & 0x3F));
    } else {
      return std::nullopt;
    }
  }
  return latin1;
}

struct PngWriter {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::vector<std::byte> bytes{};
  std::string error{};

  ~PngWriter() { png_destroy_write_struct(&png, &info); }
};

void append_bytes(png_structp png, png_bytep data, size_t count) {
  auto& writer = *static_cast<PngWriter*>(png_get_io_ptr(png));
  const auto* const begin = reinterpret_cast<const std::byte*>(data);
  writer.bytes.insert(writer.bytes.end(), begin, begin + count);
}

void keep_write_error(png_structp png, png_const_charp message) {
  static_cast<PngWriter*>(png_get_error_ptr(png))->error = message;
  png_longjmp(png, 1);
}

void ignore_write_warning(png_structp, png_const_charp) {}

// libpng reports by longjmp, so that this function has no objects with destructors.
bool write_all(PngWriter& writer, const Picture& picture, std::vector<png_text>& texts) {
  if (setjmp(png_jmpbuf(writer.png)) != 0) return false;
  constexpr int kColors[] = {0, PNG_COLOR_TYPE_GRAY, 0, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
  png_set_write_fn(writer.png, &writer, append_bytes, nullptr);
  png_set_IHDR(writer.png, writer.info, static_cast<png_uint_32>(picture.width),
               static_cast<png_uint_32>(picture.height), 8, kColors[picture.channels], PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_set_text(writer.png, writer.info, texts.data(), static_cast<int>(texts.size()));
  png_write_info(writer.png, writer.info);
  const png_const_bytep first = picture.pixels.data();
  for (int64_t row = 0; row < picture.height; ++row)
    png_write_row(writer.png, first + row * picture.width * picture.channels);
  png_write_end(writer.png, nullptr);
  return true;
}

}  // namespace

std::vector<std::byte> encode_png(const Picture& picture) {
  const bool known = picture.channels == 1 || picture.channels == 3 || picture.channels == 4;
  if (!known || picture.width < 1 || picture.height < 1 || picture.pixels.size() != picture.size())
    throw bad_input("a PNG of {} x {} pixels in {} channels", picture.width, picture.height, picture.channels);
  std::vector<std::string> values;  // by two: keyword and text
  std::vector<png_text> texts;
  values.reserve(2 * picture.texts.size());
  for (const auto& [keyword, text] : picture.texts) {
    const std::optional<std::string> key = to_latin1(keyword);
    const std::optional<std::string> latin1 = keyword == kXmpKeyword ? std::nullopt : to_latin1(text);
    if (!key || key->empty() || key->size() > 79) throw bad_input("PNG: the keyword '{}' is not allowed", keyword);
    if (text.find('\0') != text.npos) throw bad_input("PNG: the text '{}' has a byte 0", keyword);
    png_text entry{};
    entry.compression = latin1 ? PNG_TEXT_COMPRESSION_NONE : PNG_ITXT_COMPRESSION_NONE;
    entry.key = values.emplace_back(*key).data();
    std::string& value = values.emplace_back(latin1 ? *latin1 : text);
    entry.text = value.data();
    (latin1 ? entry.text_length : entry.itxt_length) = value.size();
    texts.push_back(entry);
  }
  PngWriter writer;
  writer.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &writer, keep_write_error, ignore_write_warning);
  if (writer.png != nullptr) writer.info = png_create_info_struct(writer.png);
  if (writer.info == nullptr) throw std::bad_alloc();
  if (!write_all(writer, picture, texts)) throw failed("PNG: {}", writer.error);
  return std::move(writer.bytes);
}

}  // namespace gabbro::images
