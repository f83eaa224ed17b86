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
#include "src/formats/gguf/ggml_type.h"
#include "src/formats/gguf/gguf_value.h"
#include "src/formats/metadata.h"

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

// The fields come from the first part.
class File : public Metadata {
 public:
  // Opens a model, all parts of it where the name ends in -00001-of-00003.gguf (any part will do).
  static File open(const std::string& path);
  // Reads a whole model that is in memory.
  static File of(std::unique_ptr<MappedFile> mapped);

  uint32_t version() const { return version_; }
  std::span<const std::shared_ptr<const MappedFile>> parts() const { return parts_; }

  std::span<const TensorInfo> tensors() const { return tensors_; }  // in the order of the file
  const TensorInfo* tensor(std::string_view name) const;            // null if there is none
  const TensorInfo& require_tensor(std::string_view name) const;

 private:
  File() = default;

  void add_part(std::unique_ptr<MappedFile> opened, uint32_t number, uint32_t count);
  void index_tensors();
  void check_tensor_count(uint32_t part_count) const;

  uint32_t version_ = 0;
  std::vector<std::shared_ptr<const MappedFile>> parts_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, const TensorInfo*> tensor_index_;
};

}  // namespace gabbro::gguf
