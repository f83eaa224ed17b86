#include "src/formats/gguf.h"

#include <filesystem>

#include "src/base/error.h"
#include "src/formats/foreign_file.h"
#include "src/formats/gguf_parse.h"
#include "src/formats/gguf_split.h"

namespace gabbro::gguf {
namespace {

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

}  // namespace

int64_t TensorInfo::elements() const {
  int64_t count = 1;
  for (const int64_t dimension : shape) count *= dimension;  // the parser has seen that it fits
  return count;
}

DType TensorInfo::dtype() const {
  const GgmlType* type = find_ggml_type(ggml_type);
  if (type != nullptr && type->dtype) return *type->dtype;
  throw bad_input("{}{}tensor {}: format {} is not supported", file != nullptr ? file->path() : "",
                  file != nullptr ? ": " : "", quote(name), type_name);
}

File File::open(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw Error(ErrorCode::kBadInput, path + ": is a folder, not a file: models are GGUF files", folder_hint(path));
  }
  if (std::filesystem::is_regular_file(path, ignored) && std::filesystem::file_size(path, ignored) == 0 && !ignored)
    throw Error(ErrorCode::kBadInput, path + ": the file is empty", unfinished_hint(0));
  const std::optional<SplitName> split = parse_split_name(path);
  File file;
  file.path_ = path;
  const uint32_t count = split ? split->count : 1;
  for (uint32_t i = 0; i < count; ++i) file.add_part(open_part(split ? split->path(i) : path, i, count), i, count);
  file.index_tensors();
  file.check_tensor_count(count);
  return file;
}

File File::of(std::unique_ptr<MappedFile> mapped) {
  File file;
  file.path_ = mapped->path();
  file.add_part(std::move(mapped), 0, 1);
  file.index_tensors();
  return file;
}

void File::add_part(std::unique_ptr<MappedFile> opened, uint32_t number, uint32_t count) {
  parts_.push_back(std::move(opened));
  const std::shared_ptr<const MappedFile> mapped = parts_.back();
  Part part = parse(mapped->bytes(), mapped->path());
  check_part(part, mapped->path(), number, count);
  for (TensorInfo& tensor : part.tensors) {
    tensor.file = mapped;
    tensors_.push_back(std::move(tensor));
  }
  if (number != 0) return;  // the other parts repeat nothing but the split.* fields
  version_ = part.version;
  fields_ = std::move(part.fields);
  field_index_.reserve(fields_.size());
  for (const Field& field : fields_) field_index_.emplace(field.key, &field.value);
}

void File::index_tensors() {
  tensor_index_.reserve(tensors_.size());
  for (const TensorInfo& tensor : tensors_) {
    const auto [entry, is_new] = tensor_index_.emplace(tensor.name, &tensor);
    if (is_new) continue;
    throw bad_input("{}: tensor {} is in {} too", tensor.file->path(), quote(tensor.name), entry->second->file->path());
  }
}

void File::check_tensor_count(uint32_t part_count) const {
  if (part_count == 1) return;
  const uint64_t expected = u64_or("split.tensors.count", tensors_.size());
  if (expected == tensors_.size()) return;
  throw bad_input("{}: metadata 'split.tensors.count' is {}, but the {} parts hold {} tensors", parts_[0]->path(),
                  expected, part_count, tensors_.size());
}

const TensorInfo* File::tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : found->second;
}

const TensorInfo& File::require_tensor(std::string_view name) const {
  const TensorInfo* found = tensor(name);
  if (found == nullptr) throw bad_input("{}: tensor {} is missing", path_, quote(name));
  return *found;
}

const Value* File::find(std::string_view key) const {
  const auto found = field_index_.find(key);
  return found == field_index_.end() ? nullptr : found->second;
}

const Value& File::require_value(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) throw bad_input("{}: metadata {} is missing", path_, quote(key));
  return *value;
}

void File::refuse(std::string_view key, const Value& value, std::string_view wanted) const {
  throw bad_input("{}: metadata {} at byte {}: {} is not {}", parts_[0]->path(), quote(key),
                  value.data() - parts_[0]->bytes().data(), value.describe(), wanted);
}

template <class T>
std::optional<T> File::get(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return {};
  const std::optional<T> result = value->as<T>();
  if (!result) refuse(key, *value, kWanted<T>);
  return result;
}

template <class T>
T File::require(std::string_view key) const {
  const Value& value = require_value(key);
  const std::optional<T> result = value.as<T>();
  if (!result) refuse(key, value, kWanted<T>);
  return *result;
}

template <class T>
std::vector<T> File::require_vector(std::string_view key) const {
  const Value& value = require_value(key);
  std::optional<std::vector<T>> result = value.as_vector<T>();
  if (!result) refuse(key, value, fmt::format("an array of {}", kWanted<T>));
  return std::move(*result);
}

std::vector<uint32_t> File::u32_per_layer(std::string_view key, size_t count) const {
  const Value& value = require_value(key);
  if (!value.is_array()) return std::vector<uint32_t>(count, require<uint32_t>(key));
  if (value.size() != count) refuse(key, value, fmt::format("one for each of {} layers", count));
  return require_vector<uint32_t>(key);
}

template std::optional<uint32_t> File::get(std::string_view) const;
template std::optional<uint64_t> File::get(std::string_view) const;
template std::optional<float> File::get(std::string_view) const;
template std::optional<bool> File::get(std::string_view) const;
template std::optional<std::string_view> File::get(std::string_view) const;
template uint32_t File::require(std::string_view) const;
template uint64_t File::require(std::string_view) const;
template float File::require(std::string_view) const;
template bool File::require(std::string_view) const;
template std::string_view File::require(std::string_view) const;
template std::vector<uint32_t> File::require_vector(std::string_view) const;
template std::vector<int32_t> File::require_vector(std::string_view) const;
template std::vector<float> File::require_vector(std::string_view) const;
template std::vector<bool> File::require_vector(std::string_view) const;
template std::vector<std::string_view> File::require_vector(std::string_view) const;

}  // namespace gabbro::gguf
