// Fields of a model's configuration by key, whatever holds them: the metadata of a GGUF file, or the JSON files of a
// Hugging Face folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "src/formats/gguf/gguf_value.h"

namespace gabbro {

// A view of a value in the mapped file or the parsed document, which outlive it.
class MetadataValue {
 public:
  MetadataValue(gguf::Value value) : value_(value) {}  // NOLINT(google-explicit-constructor): the same value
  explicit MetadataValue(const nlohmann::ordered_json& value) : value_(&value) {}

  bool is_array() const;
  size_t size() const;  // elements of an array; 1 for all else

  // The value as a T: uint32_t, int32_t, uint64_t, int64_t, float, double, bool or std::string_view. GGUF: see
  // gguf::Value. JSON: any integer that fits; any number as a float; all else has to match.
  template <class T>
  std::optional<T> as() const;

  // The elements of an array, each as above; empty if this is not an array, or one element does not fit.
  template <class T>
  std::optional<std::vector<T>> as_vector() const;

  // The first elements of an array of any type.
  std::vector<MetadataValue> elements(size_t limit = SIZE_MAX) const;

  std::string_view type_name() const;          // "u32", "array"; of JSON "integer", "number", ...
  std::string_view element_type_name() const;  // of an array; of JSON that of its first element

  // "u32 7", "string", "array of 3 f32": for messages.
  std::string describe() const;

  const gguf::Value* gguf() const { return std::get_if<gguf::Value>(&value_); }  // null for JSON

 private:
  std::variant<gguf::Value, const nlohmann::ordered_json*> value_;
};

struct MetadataField {
  std::string_view key;
  MetadataValue value;
};

class Metadata {
 public:
  const std::string& path() const { return path_; }  // of the model, for messages

  const std::vector<MetadataField>& fields() const { return fields_; }  // in the order of the file
  const MetadataValue* find(std::string_view key) const;                // null if there is none
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // A field of another type, or whose value does not fit, throws bad_input; so does a missing one where it is required.
  uint32_t require_u32(std::string_view key) const { return require<uint32_t>(key); }
  uint64_t require_u64(std::string_view key) const { return require<uint64_t>(key); }
  float require_f32(std::string_view key) const { return require<float>(key); }
  bool require_bool(std::string_view key) const { return require<bool>(key); }
  std::string_view require_string(std::string_view key) const { return require<std::string_view>(key); }
  uint32_t u32_or(std::string_view key, uint32_t other) const { return get<uint32_t>(key).value_or(other); }
  uint64_t u64_or(std::string_view key, uint64_t other) const { return get<uint64_t>(key).value_or(other); }
  float f32_or(std::string_view key, float other) const { return get<float>(key).value_or(other); }
  bool bool_or(std::string_view key, bool other) const { return get<bool>(key).value_or(other); }
  std::string_view string_or(std::string_view key, std::string_view other) const {
    return get<std::string_view>(key).value_or(other);
  }

  // Arrays; all are required, so ask has() first where one may be missing. Strings are views into the file.
  std::vector<std::string_view> strings(std::string_view key) const { return require_vector<std::string_view>(key); }
  std::vector<float> f32s(std::string_view key) const { return require_vector<float>(key); }
  std::vector<int32_t> i32s(std::string_view key) const { return require_vector<int32_t>(key); }
  std::vector<uint32_t> u32s(std::string_view key) const { return require_vector<uint32_t>(key); }
  std::vector<bool> bools(std::string_view key) const { return require_vector<bool>(key); }

  // A number for each layer: an array of `count` numbers, or one number that holds for all of them.
  std::vector<uint32_t> u32_per_layer(std::string_view key, size_t count) const;

  Metadata(Metadata&&) = default;
  Metadata& operator=(Metadata&&) = default;

 protected:
  Metadata() = default;
  ~Metadata() = default;

  // The fields, whose keys are unique; `path` and `start`, the first byte of a GGUF file, are for messages.
  void set_fields(std::vector<MetadataField> fields, std::string path, const std::byte* start = nullptr);
  void set_path(std::string path) { path_ = std::move(path); }

 private:
  template <class T>
  std::optional<T> get(std::string_view key) const;
  template <class T>
  T require(std::string_view key) const;
  template <class T>
  std::vector<T> require_vector(std::string_view key) const;
  const MetadataValue& require_value(std::string_view key) const;
  [[noreturn]] void refuse(std::string_view key, const MetadataValue& value, std::string_view wanted) const;

  std::string path_;
  std::string fields_path_;  // of the file that has the fields: of a split model its first part
  const std::byte* start_ = nullptr;
  std::vector<MetadataField> fields_;
  std::unordered_map<std::string_view, const MetadataValue*> index_;
};

}  // namespace gabbro
