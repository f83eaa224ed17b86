// Values as bytes, little-endian as this machine has them: both ends of a socket pair are one program. A function
// fields(archive, value) lists the members of a struct for both directions. The reader trusts nothing: no count is
// believed before that many bytes are there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/base/error.h"

namespace gabbro::worker {

class Encoder {
 public:
  template <class... T>
  void operator()(const T&... values) {
    (write(values), ...);
  }
  // An enum whose last value is `last`.
  template <class E>
  void choice(const E& value, E last) {
    static_cast<void>(last);
    write(static_cast<int32_t>(value));
  }
  const std::string& bytes() const { return bytes_; }

 private:
  template <class T>
  requires std::is_arithmetic_v<T>
  void write(T value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void write(bool value) { bytes_ += value ? '\1' : '\0'; }
  void write(const std::string& text) {
    write(static_cast<uint32_t>(text.size()));
    bytes_ += text;
  }
  template <class T>
  void write(const std::vector<T>& values) {
    write(static_cast<uint32_t>(values.size()));
    for (const T& value : values) write(value);
  }
  template <class A, class B>
  void write(const std::pair<A, B>& pair) {
    write(pair.first);
    write(pair.second);
  }
  template <class T>
  requires std::is_class_v<T>
  void write(const T& value) { fields(*this, value); }

  std::string bytes_;
};

class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : rest_(bytes) {}

  template <class... T>
  void operator()(T&... values) {
    (read(values), ...);
  }
  template <class E>
  void choice(E& value, E last) {
    int32_t number = 0;
    read(number);
    if (number < 0 || number > static_cast<int32_t>(last))
      throw failed("a message holds the unknown choice {}", number);
    value = static_cast<E>(number);
  }
  // Throws where bytes are left.
  void end() const {
    if (!rest_.empty()) throw failed("a message is {} bytes too long", rest_.size());
  }

 private:
  std::string_view take(size_t bytes) {
    if (bytes > rest_.size()) throw failed("a message ends {} bytes too soon", bytes - rest_.size());
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }
  template <class T>
  requires std::is_arithmetic_v<T>
  void read(T& value) { std::memcpy(&value, take(sizeof value).data(), sizeof value); }
  void read(bool& value) {
    const char byte = take(1)[0];
    if (byte != '\0' && byte != '\1') throw failed("a message holds the boolean {}", static_cast<int>(byte));
    value = byte == '\1';
  }
  void read(std::string& text) { text = take(read_count()); }
  template <class T>
  void read(std::vector<T>& values) {
    values.clear();
    for (size_t count = read_count(); count > 0; --count) read(values.emplace_back());
  }
  template <class A, class B>
  void read(std::pair<A, B>& pair) {
    read(pair.first);
    read(pair.second);
  }
  template <class T>
  requires std::is_class_v<T>
  void read(T& value) { fields(*this, value); }
  // A count of elements of at least a byte each.
  size_t read_count() {
    uint32_t count = 0;
    read(count);
    if (count > rest_.size()) throw failed("a message counts {} elements in {} bytes", count, rest_.size());
    return count;
  }

  std::string_view rest_;
};

}  // namespace gabbro::worker
