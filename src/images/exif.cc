#include "src/images/exif.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace gabbro::images {
namespace {

constexpr uint16_t kOrientation = 0x0112, kExifFolder = 0x8769, kUserComment = 0x9286;

class TiffReader {
 public:
  explicit TiffReader(std::span<const std::byte> bytes) : bytes_(bytes) {
    intel_ = bytes.size() >= 2 && bytes[0] == std::byte{'I'};
  }

  std::optional<uint32_t> number(size_t offset, size_t size) const {
    if (offset > bytes_.size() || bytes_.size() - offset < size) return std::nullopt;
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i) {
      const size_t at = intel_ ? offset + size - 1 - i : offset + i;
      value = (value << 8) | std::to_integer<uint32_t>(bytes_[at]);
    }
    return value;
  }

  // The offset of the 12 bytes of a field in the folder at `folder`.
  std::optional<size_t> find(uint32_t folder, uint16_t tag) const {
    const std::optional<uint32_t> count = number(folder, 2);
    for (uint32_t i = 0; count && i < *count; ++i) {
      const size_t entry = size_t{folder} + 2 + size_t{12} * i;
      const std::optional<uint32_t> found = number(entry, 2);
      if (!found) return std::nullopt;
      if (*found == tag) return entry;
    }
    return std::nullopt;
  }

  std::span<const std::byte> data(size_t entry) const {
    const std::optional<uint32_t> count = number(entry + 4, 4), offset = number(entry + 8, 4);
    if (!count || !offset || *count <= 4 || *offset > bytes_.size() || bytes_.size() - *offset < *count) return {};
    return bytes_.subspan(*offset, *count);
  }

 private:
  std::span<const std::byte> bytes_;
  bool intel_ = false;
};

void append_utf8(uint32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

// piexif, which A1111 writes with, has UTF-16BE here whatever the order of the numbers is.
std::string from_utf16(std::span<const std::byte> bytes, bool low_first) {
  const auto unit = [&](size_t i) {
    const auto a = std::to_integer<uint32_t>(bytes[i]), b = std::to_integer<uint32_t>(bytes[i + 1]);
    return low_first ? (b << 8) | a : (a << 8) | b;
  };
  std::string text;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    uint32_t c = unit(i);
    if (c >= 0xD800 && c < 0xDC00 && i + 3 < bytes.size() && unit(i + 2) >= 0xDC00 && unit(i + 2) < 0xE000) {
      c = 0x10000 + ((c - 0xD800) << 10) + (unit(i + 2) - 0xDC00);
      i += 2;
    } else if (c >= 0xD800 && c < 0xE000) {
      c = 0xFFFD;
    }
    append_utf8(c, text);
  }
  return text;
}

std::string text_of_comment(std::span<const std::byte> data) {
  if (data.size() < 8) return "";
  const std::string_view code(reinterpret_cast<const char*>(data.data()), 8);
  data = data.subspan(8);
  if (code.starts_with("UNICODE")) {
    // The first letter of a text is mostly ASCII: its zero byte tells the order.
    const bool low_first = data.size() >= 2 && data[0] != std::byte{0} && data[1] == std::byte{0};
    return from_utf16(data, low_first);
  }
  std::string text(reinterpret_cast<const char*>(data.data()), data.size());
  return text.substr(0, text.find('\0'));
}

}  // namespace

ExifFields read_exif(std::span<const std::byte> tiff) {
  ExifFields fields;
  const TiffReader reader(tiff);
  if (reader.number(2, 2) != 42u) return fields;
  const uint32_t folder = reader.number(4, 4).value_or(0);
  if (const auto entry = reader.find(folder, kOrientation)) {
    const uint32_t value = reader.number(*entry + 8, 2).value_or(1);
    if (value >= 1 && value <= 8) fields.orientation = static_cast<int>(value);
  }
  if (const auto entry = reader.find(folder, kExifFolder)) {
    const uint32_t inner = reader.number(*entry + 8, 4).value_or(0);
    if (const auto comment = reader.find(inner, kUserComment))
      fields.user_comment = text_of_comment(reader.data(*comment));
  }
  return fields;
}

}  // namespace gabbro::images
