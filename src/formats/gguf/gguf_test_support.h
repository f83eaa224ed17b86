// Helpers of the GGUF tests: fixtures, files made byte by byte, and the shape of every error.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/formats/gguf/gguf.h"
#include "src/formats/gguf/gguf_parse.h"

namespace gabbro::gguf {

inline std::string fixture(const std::string& name) {
  return std::string(GABBRO_SOURCE_DIR) + "/tests/data/formats/gguf/" + name;
}

inline std::span<const std::byte> as_span(const std::string& text) { return std::as_bytes(std::span(text)); }

// A folder that goes when the test ends.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = testing::TempDir() + "gabbro.XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return fmt::format("{}/{}", path_, name); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The message of the one line that `run` throws as bad input.
template <class Run>
std::string error_of(const Run& run) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return "(no error)";
}

// Looks at all that a parsed file holds, as a careless user would.
inline size_t touch_everything(const Part& part) {
  size_t sum = 0;
  const auto touch = [&](const auto& self, const Value& value) -> void {
    sum += value.describe().size() + value.bytes();
    if (const auto text = value.as<std::string_view>()) {
      for (const char c : *text) sum += static_cast<unsigned char>(c);
    }
    sum += value.as<uint64_t>().has_value() + value.as<float>().has_value() + value.as<bool>().has_value();
    if (const auto texts = value.as_vector<std::string_view>()) sum += texts->size();
    if (const auto numbers = value.as_vector<int32_t>()) sum += numbers->size();
    for (const Value& element : value.elements()) self(self, element);
  };
  for (const Field& field : part.fields) touch(touch, field.value);
  for (const TensorInfo& tensor : part.tensors) {
    for (const std::byte byte : tensor.data) sum += std::to_integer<size_t>(byte);
    sum += static_cast<size_t>(tensor.elements()) + tensor.type_name.size();
  }
  return sum;
}

// A file byte by byte, so that it can be wrong anywhere.
class Bytes {
 public:
  template <class T>
  Bytes& put(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& raw(std::string_view text) {
    text_ += text;
    return *this;
  }
  Bytes& string(std::string_view text) { return put<uint64_t>(text.size()).raw(text); }
  Bytes& header(uint64_t tensors, uint64_t fields, uint32_t version = 3) {
    return raw("GGUF").put<uint32_t>(version).put(tensors).put(fields);
  }
  Bytes& field(std::string_view key, ValueType type) { return string(key).put(type); }
  Bytes& tensor(std::string_view name, const std::vector<int64_t>& dimensions, uint32_t type, uint64_t offset) {
    string(name).put(static_cast<uint32_t>(dimensions.size()));
    for (const int64_t dimension : dimensions) put(dimension);
    return put(type).put(offset);
  }
  Bytes& data(size_t size) {
    text_.resize((text_.size() + 31) / 32 * 32);
    text_.append(size, '\1');
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

inline std::string parse_error(const Bytes& file) {
  return error_of([&] { touch_everything(parse(as_span(file.text()), "x.gguf")); });
}

}  // namespace gabbro::gguf
