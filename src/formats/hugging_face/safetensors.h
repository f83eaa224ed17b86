// Safetensors files (Hugging Face's format, version of its README): a u64 header length, a JSON header, the tensors'
// bytes. Everything is checked on opening; a bad file throws one line that names the file, the field and its byte.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gabbro/dtype.h"
#include "src/base/mapped_file.h"

namespace gabbro::safetensors {

// Limit of the reference implementation on a header's size.
inline constexpr size_t kMostHeaderBytes = 100'000'000;

struct TensorInfo {
  std::string name;
  std::string dtype_name;           // "BF16"
  std::vector<int64_t> shape;       // row-major; lengths may be 0, and there may be none
  std::span<const std::byte> data;  // a view into the file, aligned to nothing

  std::optional<DType> known_dtype() const;  // nothing where we have none such
  DType dtype() const;                       // throws bad_input then, naming tensor and dtype
};

struct Contents {
  std::vector<TensorInfo> tensors;              // in the order of their bytes
  std::map<std::string, std::string> metadata;  // of "__metadata__"
};

// Views into `bytes`. Throws bad_input "NAME: ...": a header that is cut off, too long, not JSON, or that has a key
// twice or an entry of another kind; dtypes that the format does not have; sizes that do not match shape and dtype;
// data that overlap, leave holes, or end elsewhere than the file.
Contents parse(std::span<const std::byte> bytes, std::string_view name);

// A file that stays mapped for as long as this lives.
class File {
 public:
  explicit File(const std::string& path);

  const std::string& path() const { return mapped_->path(); }
  std::span<const TensorInfo> tensors() const { return contents_.tensors; }
  const TensorInfo* tensor(std::string_view name) const;  // null if there is none
  const std::map<std::string, std::string>& metadata() const { return contents_.metadata; }
  const std::shared_ptr<const MappedFile>& mapped() const { return mapped_; }

 private:
  std::shared_ptr<const MappedFile> mapped_;
  Contents contents_;
};

struct TensorData {
  std::string name;
  DType dtype = DType::f32;  // a plain one
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
};

// Writes a whole file or none. Larger elements come first, so that all are aligned. Throws bad_input for names that are
// there twice or are the format's own, block formats, and sizes that do not fit; failed() where it cannot be written.
void write(const std::string& path, std::span<const TensorData> tensors,
           const std::map<std::string, std::string>& metadata = {});

}  // namespace gabbro::safetensors
