#include "src/formats/metadata.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"

namespace gabbro {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
constexpr std::string_view kWanted{};
template <>
constexpr std::string_view kWanted<uint32_t> = "u32";
template <>
constexpr std::string_view kWanted<int32_t> = "i32";
template <>
constexpr std::string_view kWanted<uint64_t> = "u64";
template <>
constexpr std::string_view kWanted<float> = "f32";
template <>
constexpr std::string_view kWanted<bool> = "bool";
template <>
constexpr std::string_view kWanted<std::string_view> = "string";

template <class T>
std::optional<T> json_as(const Json& value) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    if (value.is_string()) return value.get_ref<const std::string&>();
  } else if constexpr (std::is_same_v<T, bool>) {
    if (value.is_boolean()) return value.get<bool>();
  } else if constexpr (std::is_floating_point_v<T>) {
    if (value.is_number()) return value.get<T>();
    const auto name = value.is_object() && value.size() == 1 ? value.find("__float__") : value.end();
    if (name != value.end() && *name == "Infinity") return std::numeric_limits<T>::infinity();
    if (name != value.end() && *name == "-Infinity") return -std::numeric_limits<T>::infinity();
  } else if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (std::in_range<T>(number)) return static_cast<T>(number);
  } else if (value.is_number_integer()) {
    const auto number = value.get<int64_t>();
    if (std::in_range<T>(number)) return static_cast<T>(number);
  }
  return {};
}

std::string_view json_type_name(const Json& value) {
  if (value.is_number_float()) return "number";
  return value.is_number() ? "integer" : value.type_name();
}

}  // namespace

bool MetadataValue::is_array() const {
  const auto* raw = gguf();
  return raw != nullptr ? raw->is_array() : std::get<const Json*>(value_)->is_array();
}

size_t MetadataValue::size() const {
  if (const auto* raw = gguf()) return raw->size();
  const Json& json = *std::get<const Json*>(value_);
  return json.is_array() ? json.size() : 1;
}

template <class T>
std::optional<T> MetadataValue::as() const {
  if (const auto* raw = gguf()) return raw->as<T>();
  return json_as<T>(*std::get<const Json*>(value_));
}

template <class T>
std::optional<std::vector<T>> MetadataValue::as_vector() const {
  if (const auto* raw = gguf()) return raw->as_vector<T>();
  const Json& json = *std::get<const Json*>(value_);
  if (!json.is_array()) return {};
  std::vector<T> values;
  for (const Json& element : json) {
    const std::optional<T> value = json_as<T>(element);
    if (!value) return {};
    values.push_back(*value);
  }
  return values;
}

std::vector<MetadataValue> MetadataValue::elements(size_t limit) const {
  std::vector<MetadataValue> values;
  if (const auto* raw = gguf()) {
    for (const gguf::Value& element : raw->elements(limit)) values.emplace_back(element);
  } else if (const Json& json = *std::get<const Json*>(value_); json.is_array()) {
    for (size_t i = 0; i < std::min(limit, json.size()); ++i) values.emplace_back(json[i]);
  }
  return values;
}

std::string_view MetadataValue::type_name() const {
  const auto* raw = gguf();
  return raw != nullptr ? gguf::value_type_name(raw->type()) : json_type_name(*std::get<const Json*>(value_));
}

std::string_view MetadataValue::element_type_name() const {
  if (const auto* raw = gguf()) return gguf::value_type_name(raw->element_type());
  const Json& json = *std::get<const Json*>(value_);
  return json.empty() ? "null" : json_type_name(json.front());
}

std::string MetadataValue::describe() const {
  if (const auto* raw = gguf()) return raw->describe();
  if (is_array()) return fmt::format("array of {} {}", size(), element_type_name());
  if (const auto value = as<int64_t>()) return fmt::format("{} {}", type_name(), *value);
  return std::string(type_name());
}

void Metadata::set_fields(std::vector<MetadataField> fields, std::string path, const std::byte* start) {
  fields_ = std::move(fields);
  fields_path_ = std::move(path);
  start_ = start;
  index_.reserve(fields_.size());
  for (const MetadataField& field : fields_) index_.emplace(field.key, &field.value);
}

const MetadataValue* Metadata::find(std::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : found->second;
}

const MetadataValue& Metadata::require_value(std::string_view key) const {
  const MetadataValue* value = find(key);
  if (value == nullptr) throw bad_input("{}: metadata {} is missing", path_, quote(key));
  return *value;
}

void Metadata::refuse(std::string_view key, const MetadataValue& value, std::string_view wanted) const {
  std::string at;
  if (start_ != nullptr && value.gguf() != nullptr) at = fmt::format(" at byte {}", value.gguf()->data() - start_);
  throw bad_input("{}: metadata {}{}: {} is not {}", fields_path_, quote(key), at, value.describe(), wanted);
}

template <class T>
std::optional<T> Metadata::get(std::string_view key) const {
  const MetadataValue* value = find(key);
  if (value == nullptr) return {};
  const std::optional<T> result = value->as<T>();
  if (!result) refuse(key, *value, kWanted<T>);
  return result;
}

template <class T>
T Metadata::require(std::string_view key) const {
  const MetadataValue& value = require_value(key);
  const std::optional<T> result = value.as<T>();
  if (!result) refuse(key, value, kWanted<T>);
  return *result;
}

template <class T>
std::vector<T> Metadata::require_vector(std::string_view key) const {
  const MetadataValue& value = require_value(key);
  std::optional<std::vector<T>> result = value.as_vector<T>();
  if (!result) refuse(key, value, fmt::format("an array of {}", kWanted<T>));
  return std::move(*result);
}

std::vector<uint32_t> Metadata::u32_per_layer(std::string_view key, size_t count) const {
  const MetadataValue& value = require_value(key);
  if (!value.is_array()) return std::vector<uint32_t>(count, require<uint32_t>(key));
  if (value.size() != count) refuse(key, value, fmt::format("one for each of {} layers", count));
  return require_vector<uint32_t>(key);
}

template std::optional<uint32_t> MetadataValue::as() const;
template std::optional<int32_t> MetadataValue::as() const;
template std::optional<uint64_t> MetadataValue::as() const;
template std::optional<int64_t> MetadataValue::as() const;
template std::optional<float> MetadataValue::as() const;
template std::optional<double> MetadataValue::as() const;
template std::optional<bool> MetadataValue::as() const;
template std::optional<std::string_view> MetadataValue::as() const;
template std::optional<std::vector<uint32_t>> MetadataValue::as_vector() const;
template std::optional<std::vector<int32_t>> MetadataValue::as_vector() const;
template std::optional<std::vector<uint64_t>> MetadataValue::as_vector() const;
template std::optional<std::vector<int64_t>> MetadataValue::as_vector() const;
template std::optional<std::vector<float>> MetadataValue::as_vector() const;
template std::optional<std::vector<double>> MetadataValue::as_vector() const;
template std::optional<std::vector<bool>> MetadataValue::as_vector() const;
template std::optional<std::vector<std::string_view>> MetadataValue::as_vector() const;
template std::optional<uint32_t> Metadata::get(std::string_view) const;
template std::optional<uint64_t> Metadata::get(std::string_view) const;
template std::optional<float> Metadata::get(std::string_view) const;
template std::optional<bool> Metadata::get(std::string_view) const;
template std::optional<std::string_view> Metadata::get(std::string_view) const;
template uint32_t Metadata::require(std::string_view) const;
template uint64_t Metadata::require(std::string_view) const;
template float Metadata::require(std::string_view) const;
template bool Metadata::require(std::string_view) const;
template std::string_view Metadata::require(std::string_view) const;
template std::vector<uint32_t> Metadata::require_vector(std::string_view) const;
template std::vector<int32_t> Metadata::require_vector(std::string_view) const;
template std::vector<float> Metadata::require_vector(std::string_view) const;
template std::vector<bool> Metadata::require_vector(std::string_view) const;
template std::vector<std::string_view> Metadata::require_vector(std::string_view) const;

}  // namespace gabbro
