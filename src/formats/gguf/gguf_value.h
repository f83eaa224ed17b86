// A metadata value of a GGUF file: a view of its bytes there, which the parser has checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gabbro::gguf {

enum class ValueType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
inline constexpr uint32_t kValueTypeCount = 13;

std::string_view value_type_name(ValueType type);

// Bytes of a value of that type; 0 for strings and arrays, which vary.
size_t value_type_size(ValueType type);

class Value {
 public:
  Value(ValueType type, const std::byte* data) : type_(type), data_(data) {}

  ValueType type() const { return type_; }
  bool is_array() const { return type_ == ValueType::array; }
  ValueType element_type() const;  // of an array
  size_t size() const;             // elements of an array; 1 for all else

  // The value as a T, which is uint32_t, int32_t, uint64_t, int64_t, float, double, bool or std::string_view (into the
  // file). Any integer type gives any other where the value fits, and 0 and 1 give bool, as some converters write it;
  // f32 and f64 give either; all else has to match.
  template <class T>
  std::optional<T> as() const;

  // The elements of an array, each as above; empty if this is not an array, or one element does not fit.
  template <class T>
  std::optional<std::vector<T>> as_vector() const;

  // The first elements of an array of any type, nested arrays too.
  std::vector<Value> elements(size_t limit = SIZE_MAX) const;

  // "u32 7", "string", "array of 3 f32": for messages.
  std::string describe() const;

  // Position and size in the file.
  const std::byte* data() const { return data_; }
  size_t bytes() const;

 private:
  ValueType type_;
  const std::byte* data_;
};

}  // namespace gabbro::gguf
