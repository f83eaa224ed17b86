// Cuts a fuzzer's bytes into typed values: numbers from the end, texts from the front, so that a mutation of one leaves
// the others unchanged. When the bytes run out, numbers are the smallest of their range and texts are empty.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gabbro::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data, size) {}

  // In [low, high]; takes as many bytes as the range needs.
  int64_t number(int64_t low, int64_t high) {
    const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    uint64_t value = 0;
    for (uint64_t left = range; left > 0 && !data_.empty(); left >>= 8) {
      value = value << 8 | data_.back();
      data_ = data_.first(data_.size() - 1);
    }
    return static_cast<int64_t>(static_cast<uint64_t>(low) + (range == UINT64_MAX ? value : value % (range + 1)));
  }

  bool boolean() { return number(0, 1) != 0; }
  size_t index(size_t count) { return static_cast<size_t>(number(0, static_cast<int64_t>(count) - 1)); }
  float any_float() { return std::bit_cast<float>(static_cast<uint32_t>(number(0, UINT32_MAX))); }

  template <class T, size_t N>
  const T& pick(const T (&values)[N]) {
    return values[index(N)];
  }

  // At most `longest` bytes. A backslash before anything but a backslash ends it.
  std::string text(size_t longest) {
    std::string result;
    while (result.size() < longest && !data_.empty()) {
      char c = take_front();
      if (c == '\\' && !data_.empty()) {
        c = take_front();
        if (c != '\\') break;
      }
      result.push_back(c);
    }
    return result;
  }

  std::string rest() {
    std::string result(data_.begin(), data_.end());
    data_ = {};
    return result;
  }

 private:
  char take_front() {
    const char c = static_cast<char>(data_.front());
    data_ = data_.subspan(1);
    return c;
  }

  std::span<const uint8_t> data_;
};

}  // namespace gabbro::fuzz
