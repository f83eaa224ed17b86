#include "src/text/readers/protobuf.h"

#include <bit>
#include <cstring>

#include "src/base/error.h"

namespace gabbro::text {
namespace {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

}  // namespace

void ProtobufReader::refuse(std::string_view what) const { throw bad_input("{}: byte {}: {}", where_, at_, what); }

uint64_t ProtobufReader::read_varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at_ == bytes_.size()) refuse("the message ends within a number");
    const auto byte = static_cast<uint8_t>(bytes_[at_++]);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  refuse("a number is longer than 64 bits");
}

bool ProtobufReader::next() {
  if (at_ == bytes_.size()) return false;
  const uint64_t tag = read_varint();
  field_ = static_cast<uint32_t>(tag >> 3);
  type_ = static_cast<uint32_t>(tag & 7);
  if (tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF) refuse("is not a field of a protocol buffer");
  switch (type_) {
    case kVarint:
      number_ = read_varint();
      return true;
    case kFixed64:
    case kFixed32: {
      const size_t size = type_ == kFixed64 ? 8 : 4;
      if (bytes_.size() - at_ < size) refuse("the message ends within a number");
      view_ = bytes_.substr(at_, size);
      at_ += size;
      return true;
    }
    case kBytes: {
      const uint64_t size = read_varint();
      if (size > bytes_.size() - at_) refuse("a field is longer than the message");
      view_ = bytes_.substr(at_, static_cast<size_t>(size));
      at_ += static_cast<size_t>(size);
      return true;
    }
    default:
      refuse("is not a field of a protocol buffer");
  }
}

uint64_t ProtobufReader::varint() const {
  if (type_ != kVarint) refuse("a field has another type than expected");
  return number_;
}

float ProtobufReader::f32() const {
  if (type_ != kFixed32) refuse("a field has another type than expected");
  uint32_t bits = 0;
  std::memcpy(&bits, view_.data(), sizeof bits);
  return std::bit_cast<float>(bits);
}

std::string_view ProtobufReader::bytes() const {
  if (type_ != kBytes) refuse("a field has another type than expected");
  return view_;
}

}  // namespace gabbro::text
