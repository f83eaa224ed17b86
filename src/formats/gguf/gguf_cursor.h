// Reads little-endian values from untrusted bytes; reading past the end is an error that names the position.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/foreign_file.h"
#include "src/formats/gguf/gguf_parse.h"

namespace gabbro::gguf {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place");

class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  // Subject of the next reads: "metadata", its key, or its number while the key is not known.
  void about(std::string_view kind, std::string_view name) { kind_ = kind, name_ = name, number_ = 0; }
  void about(std::string_view kind, uint64_t number) { kind_ = kind, name_ = {}, number_ = number; }

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  const std::byte* here() const { return bytes_.data() + position_; }

  template <class T>
  T read(std::string_view field) {
    T value;
    std::memcpy(&value, take(sizeof(T), field), sizeof(T));
    return value;
  }

  std::string_view read_string(std::string_view field) {
    const size_t start = position_;
    const uint64_t length = read<uint64_t>(field);
    if (length > remaining())
      fail_early_end(start, field, "its length {} is more than the {} bytes left", length, remaining());
    return {reinterpret_cast<const char*>(take(length, field)), static_cast<size_t>(length)};
  }

  const std::byte* take(uint64_t size, std::string_view field) {
    if (size > remaining()) fail_early_end(position_, field, "the file ends too early, after {} bytes", bytes_.size());
    const std::byte* start = here();
    position_ += size;
    return start;
  }

  // "model.gguf: metadata 'general.name': type at byte 31: ..."
  template <class... Args>
  [[noreturn]] void fail(size_t offset, std::string_view field, fmt::format_string<Args...> format,
                         Args&&... args) const {
    throw bad_input("{}: {}{} at byte {}: {}", file_, subject(), field, offset,
                    fmt::format(format, std::forward<Args>(args)...));
  }

  // As fail(), for faults that an unfinished download may explain.
  template <class... Args>
  [[noreturn]] void fail_early_end(size_t offset, std::string_view field, fmt::format_string<Args...> format,
                                   Args&&... args) const {
    fail_with_hint(unfinished_hint(bytes_.size()), offset, field, format, std::forward<Args>(args)...);
  }

  template <class... Args>
  [[noreturn]] void fail_with_hint(const std::string& hint, size_t offset, std::string_view field,
                                   fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{}: {}{} at byte {}: {}", file_, subject(), field, offset,
                            fmt::format(format, std::forward<Args>(args)...)),
                hint);
  }

 private:
  std::string subject() const {
    if (kind_.empty()) return {};
    return name_.empty() ? fmt::format("{} {}: ", kind_, number_) : fmt::format("{} {}: ", kind_, quote(name_));
  }

  std::span<const std::byte> bytes_;
  size_t position_ = 0;
  std::string_view file_;
  std::string_view kind_, name_;
  uint64_t number_ = 0;
};

}  // namespace gabbro::gguf
