// GGUF v2 and v3, the model files of llama.cpp: metadata and tensors, read in place from the mapped file.
// Everything is checked on opening; a bad file throws one line that names the file, the field and its byte offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gabbro/dtype.h"
#include "src/base/mapped_file.h"
#include "src/formats/ggml_type.h"
#include "src/formats/gguf_value.h"

namespace gabbro::gguf {

struct Field {
  std::string_view key;
  Value value;
};

// Views into the file: valid as long as the File is (moving it does no harm).
struct TensorInfo {
  std::string_view name;
  uint32_t ggml_type;
  std::string_view type_name;              // "Q4_K"
  std::vector<int64_t> shape;              // row-major: slowest first, GGUF's own order reversed; no dimension is 0
  std::span<const std::byte> data;         // a multiple of 8 bytes from the start of the file
  std::shared_ptr<const MappedFile> file;  // the part of a split model that holds the data

  int64_t elements() const;
  DType dtype() const;  // throws bad_input, naming the format, where we cannot run it
};

class File {
 public:
  // Opens a model, all parts of it where the name ends in -00001-of-00003.gguf (any part will do).
  static File open(const std::string& path);
  // The same of a whole model that is in memory.
  static File of(std::unique_ptr<MappedFile> mapped);

  const std::string& path() const { return path_; }
  uint32_t version() const { return version_; }
  std::span<const std::shared_ptr<const MappedFile>> parts() const { return parts_; }

  std::span<const TensorInfo> tensors() const { return tensors_; }  // in the order of the file
  const TensorInfo* tensor(std::string_view name) const;            // null if there is none
  const TensorInfo& require_tensor(std::string_view name) const;

  std::span<const Field> fields() const { return fields_; }
  const Value* find(std::string_view key) const;  // null if there is none

  // A field of another type, or whose value does not fit, throws; so does a missing one where it is required.
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

  // Arrays; all are required, so ask find() first where one may be missing. Strings are views into the file.
  std::vector<std::string_view> strings(std::string_view key) const { return require_vector<std::string_view>(key); }
  std::vector<float> f32s(std::string_view key) const { return require_vector<float>(key); }
  std::vector<int32_t> i32s(std::string_view key) const { return require_vector<int32_t>(key); }
  std::vector<uint32_t> u32s(std::string_view key) const { return require_vector<uint32_t>(key); }
  std::vector<bool> bools(std::string_view key) const { return require_vector<bool>(key); }

  // A number for each layer: an array of `count` numbers, or one number that holds for all of them.
  std::vector<uint32_t> u32_per_layer(std::string_view key, size_t count) const;

 private:
  File() = default;

  template <class T>
  std::optional<T> get(std::string_view key) const;
  template <class T>
  T require(std::string_view key) const;
  template <class T>
  std::vector<T> require_vector(std::string_view key) const;
  const Value& require_value(std::string_view key) const;
  [[noreturn]] void refuse(std::string_view key, const Value& value, std::string_view wanted) const;

  void add_part(std::unique_ptr<MappedFile> opened, uint32_t number, uint32_t count);
  void index_tensors();
  void check_tensor_count(uint32_t part_count) const;

  std::string path_;
  uint32_t version_ = 0;
  std::vector<std::shared_ptr<const MappedFile>> parts_;
  std::vector<Field> fields_;  // of the first part
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, const Value*> field_index_;
  std::unordered_map<std::string_view, const TensorInfo*> tensor_index_;
};

}  // namespace gabbro::gguf
