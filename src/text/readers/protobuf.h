// A reader of protocol buffers (the wire format of version 2 and 3) that trusts nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gabbro::text {

class ProtobufReader {
 public:
  // `where` is for messages.
  ProtobufReader(std::string_view bytes, std::string where) : bytes_(bytes), where_(std::move(where)) {}

  // Goes to the next field; false at the end. All throw bad_input that names `where` for bytes that are not a message.
  bool next();
  uint32_t field() const { return field_; }

  // The value of the present field; throws where it is of another wire type.
  uint64_t varint() const;
  float f32() const;
  std::string_view bytes() const;

  const std::string& where() const { return where_; }

 private:
  [[noreturn]] void refuse(std::string_view what) const;
  uint64_t read_varint();

  std::string_view bytes_;
  std::string where_;
  size_t at_ = 0;
  uint32_t field_ = 0, type_ = 0;
  uint64_t number_ = 0;
  std::string_view view_;
};

}  // namespace gabbro::text
