// Writes keys of programs and graphs: bytes that are equal for two exactly when they do the same.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "src/plan/program.h"

namespace gabbro {

// Bytes are written through a cursor: a key of a small graph takes a hundred numbers, and a microsecond is all there
// is.
class KeyWriter {
 public:
  template <class T>
  void number(T value) {
    std::memcpy(room(sizeof value), &value, sizeof value);
  }
  void numbers(std::span<const int64_t> values) {
    number(values.size());
    for (const int64_t value : values) number(value);
  }
  void text(std::string_view text) {
    number(text.size());
    std::memcpy(room(text.size()), text.data(), text.size());
  }
  void tensor(const TensorSpec& spec, const Strides& strides) {
    number(spec.dtype);
    number(spec.packed);
    numbers(spec.shape.lengths());
    number(strides);
  }
  void operation(const Op* op, const Attributes& attributes) {
    number(reinterpret_cast<uintptr_t>(op));
    number(attributes.entries().size());
    for (const auto& [name, value] : attributes.entries()) {
      text(name);
      number(value.index());
      if (const auto* integer = std::get_if<int64_t>(&value)) number(*integer);
      if (const auto* real = std::get_if<double>(&value)) number(*real);
      if (const auto* string = std::get_if<std::string>(&value)) text(*string);
    }
  }
  void instruction(const Instruction& instruction) {
    operation(instruction.op, instruction.attributes);
    number(instruction.inputs.size());
    for (const int input : instruction.inputs) number(input);
  }
  std::string take() {
    key_.resize(size_);
    return std::move(key_);
  }
  std::string_view view() const { return {key_.data(), size_}; }
  // Starts another key in the same memory, unless a large graph took much of it.
  void restart() {
    constexpr size_t kMostKept = 65536;
    size_ = 0;
    if (key_.size() > kMostKept) key_ = {};
  }

 private:
  char* room(size_t bytes) {
    if (key_.size() - size_ < bytes) key_.resize(std::max<size_t>(512, 2 * (key_.size() + bytes)));  // 512: some ops
    char* const at = key_.data() + size_;
    size_ += bytes;
    return at;
  }

  std::string key_;  // its first size_ bytes
  size_t size_ = 0;
};

}  // namespace gabbro
