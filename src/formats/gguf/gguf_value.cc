#include "src/formats/gguf/gguf_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

namespace gabbro::gguf {
namespace {

constexpr size_t kArrayHeader = 12;  // u32 element type, u64 count
constexpr size_t kStringHeader = 8;  // u64 length

template <class T>
T load(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

std::string_view load_string(const std::byte* data) {
  return {reinterpret_cast<const char*>(data) + kStringHeader, load<uint64_t>(data)};
}

// Bytes of a checked value.
size_t extent(ValueType type, const std::byte* data) {
  if (type == ValueType::string) return kStringHeader + load_string(data).size();
  if (type != ValueType::array) return value_type_size(type);
  const Value array(type, data);
  const ValueType element = array.element_type();
  if (const size_t size = value_type_size(element); size != 0) return kArrayHeader + size * array.size();
  size_t bytes = kArrayHeader;
  for (size_t i = 0, count = array.size(); i < count; ++i) bytes += extent(element, data + bytes);
  return bytes;
}

// Calls visit(first byte) for the first `limit` elements, until it returns false.
template <class Visit>
void for_each_element(const Value& array, size_t limit, const Visit& visit) {
  const ValueType type = array.element_type();
  const std::byte* element = array.data() + kArrayHeader;
  for (size_t i = 0, count = std::min(limit, array.size()); i < count; ++i) {
    if (!visit(element)) return;
    element += extent(type, element);
  }
}

template <class T>
std::optional<T> fit(auto value) {
  if (!std::in_range<T>(value)) return {};
  return static_cast<T>(value);
}

template <class T>
std::optional<T> integer(ValueType type, const std::byte* data) {
  switch (type) {
    case ValueType::u8:
      return fit<T>(load<uint8_t>(data));
    case ValueType::i8:
      return fit<T>(load<int8_t>(data));
    case ValueType::u16:
      return fit<T>(load<uint16_t>(data));
    case ValueType::i16:
      return fit<T>(load<int16_t>(data));
    case ValueType::u32:
      return fit<T>(load<uint32_t>(data));
    case ValueType::i32:
      return fit<T>(load<int32_t>(data));
    case ValueType::u64:
      return fit<T>(load<uint64_t>(data));
    case ValueType::i64:
      return fit<T>(load<int64_t>(data));
    default:
      return {};
  }
}

}  // namespace

std::string_view value_type_name(ValueType type) {
  static constexpr std::string_view kNames[kValueTypeCount] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                               "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<uint32_t>(type)];
}

size_t value_type_size(ValueType type) {
  static constexpr uint8_t kSizes[kValueTypeCount] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kSizes[static_cast<uint32_t>(type)];
}

ValueType Value::element_type() const { return static_cast<ValueType>(load<uint32_t>(data_)); }

size_t Value::size() const { return is_array() ? load<uint64_t>(data_ + 4) : 1; }

size_t Value::bytes() const { return extent(type_, data_); }

template <class T>
std::optional<T> Value::as() const {
  if constexpr (std::is_same_v<T, std::string_view>) {
    if (type_ == ValueType::string) return load_string(data_);
  } else if constexpr (std::is_same_v<T, bool>) {
    if (type_ == ValueType::boolean) return load<uint8_t>(data_) != 0;
    const auto number = integer<int64_t>(type_, data_);
    if (number && (*number == 0 || *number == 1)) return *number == 1;
  } else if constexpr (std::is_floating_point_v<T>) {
    if (type_ == ValueType::f32) return static_cast<T>(load<float>(data_));
    if (type_ == ValueType::f64) return static_cast<T>(load<double>(data_));
  } else {
    return integer<T>(type_, data_);
  }
  return {};
}

template <class T>
std::optional<std::vector<T>> Value::as_vector() const {
  if (!is_array()) return {};
  std::vector<T> values;
  values.reserve(size());  // the parser has found that many in the file
  bool fits = true;
  for_each_element(*this, size(), [&](const std::byte* element) {
    const std::optional<T> value = Value(element_type(), element).as<T>();
    if (value) values.push_back(*value);
    return fits = value.has_value();
  });
  if (!fits) return {};
  return values;
}

std::vector<Value> Value::elements(size_t limit) const {
  std::vector<Value> values;
  if (!is_array()) return values;
  for_each_element(*this, limit, [&](const std::byte* element) {
    values.emplace_back(element_type(), element);
    return true;
  });
  return values;
}

std::string Value::describe() const {
  const std::string_view name = value_type_name(type_);
  if (is_array()) return fmt::format("array of {} {}", size(), value_type_name(element_type()));
  if (const auto value = as<int64_t>()) return fmt::format("{} {}", name, *value);
  if (const auto value = as<uint64_t>()) return fmt::format("{} {}", name, *value);
  return std::string(name);
}

template std::optional<uint32_t> Value::as() const;
template std::optional<int32_t> Value::as() const;
template std::optional<uint64_t> Value::as() const;
template std::optional<int64_t> Value::as() const;
template std::optional<float> Value::as() const;
template std::optional<double> Value::as() const;
template std::optional<bool> Value::as() const;
template std::optional<std::string_view> Value::as() const;
template std::optional<std::vector<uint32_t>> Value::as_vector() const;
template std::optional<std::vector<int32_t>> Value::as_vector() const;
template std::optional<std::vector<uint64_t>> Value::as_vector() const;
template std::optional<std::vector<int64_t>> Value::as_vector() const;
template std::optional<std::vector<float>> Value::as_vector() const;
template std::optional<std::vector<double>> Value::as_vector() const;
template std::optional<std::vector<bool>> Value::as_vector() const;
template std::optional<std::vector<std::string_view>> Value::as_vector() const;

}  // namespace gabbro::gguf
