#include "src/formats/gguf/gguf.h"

#include <algorithm>
#include <filesystem>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/foreign_file.h"
#include "src/formats/foreign_folder.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/gguf/gguf_split.h"

namespace gabbro::gguf {
namespace {

// Fields are views of the header, and are trusted once it has been parsed.
size_t header_bytes(const Part& part, std::span<const std::byte> bytes) {
  size_t end = bytes.size();
  for (const TensorInfo& tensor : part.tensors)
    end = std::min(end, static_cast<size_t>(tensor.data.data() - bytes.data()));
  return end;
}

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
    refuse_adapter_folder(path);
    throw Error(ErrorCode::kBadInput, path + ": is a folder without a model", folder_hint(path));
  }
  refuse_empty(path);
  const std::optional<SplitName> split = parse_split_name(path);
  File file;
  file.set_path(path);
  const uint32_t count = split ? split->count : 1;
  for (uint32_t i = 0; i < count; ++i) file.add_part(open_part(split ? split->path(i) : path, i, count), i, count);
  file.index_tensors();
  file.check_tensor_count(count);
  return file;
}

File File::of(std::unique_ptr<MappedFile> mapped) {
  File file;
  file.set_path(mapped->path());
  file.add_part(std::move(mapped), 0, 1);
  file.index_tensors();
  return file;
}

void File::add_part(std::unique_ptr<MappedFile> opened, uint32_t number, uint32_t count) {
  parts_.push_back(std::move(opened));
  const std::shared_ptr<const MappedFile> mapped = parts_.back();
  Part part = parse(mapped->bytes(), mapped->path());
  mapped->detach(header_bytes(part, mapped->bytes()));
  check_part(part, mapped->path(), number, count);
  for (TensorInfo& tensor : part.tensors) {
    tensor.file = mapped;
    tensors_.push_back(std::move(tensor));
  }
  if (number != 0) return;  // the other parts repeat nothing but the split.* fields
  version_ = part.version;
  std::vector<MetadataField> fields;
  for (const Field& field : part.fields) fields.push_back({field.key, field.value});
  set_fields(std::move(fields), mapped->path(), mapped->bytes().data());
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
  if (found == nullptr) throw bad_input("{}: tensor {} is missing", path(), quote(name));
  return *found;
}

}  // namespace gabbro::gguf
