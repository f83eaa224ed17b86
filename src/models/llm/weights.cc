#include "src/models/llm/weights.h"

#include <fmt/ranges.h>

#include "src/base/error.h"
#include "src/formats/ggml_type.h"
#include "src/formats/quant/finite.h"
#include "src/formats/quant/quant.h"

namespace gabbro::llm {

namespace {

size_t bytes_of_matrices(const gguf::File& file, const Device& device) {
  size_t bytes = 0;
  for (const gguf::TensorInfo& info : file.tensors()) {
    const gguf::GgmlType* type = gguf::find_ggml_type(info.ggml_type);
    if (info.shape.size() != 2 || !type->dtype) continue;  // it may be one that the model does not use
    bytes += MemoryBlock::rounded(device.matrix_bytes(*type->dtype, info.shape[0], info.shape[1]));
  }
  return bytes;
}

}  // namespace

WeightLoader::WeightLoader(const gguf::File& file, std::shared_ptr<Device> device, LoadProgress progress)
    : file_(file),
      device_(std::move(device)),
      memory_(device_, bytes_of_matrices(file, *device_)),
      progress_(std::move(progress)) {
  for (const gguf::TensorInfo& info : file.tensors()) total_ += info.data.size();
}

const gguf::TensorInfo& WeightLoader::checked(const std::string& name, std::vector<int64_t> shape) const {
  const gguf::TensorInfo& info = file_.require_tensor(name);
  if (info.shape != shape) {
    throw bad_input("{}: tensor '{}' has shape ({}), the model's sizes ask for ({})", file_.path(), name,
                    fmt::join(info.shape, ", "), fmt::join(shape, ", "));
  }
  if (!all_finite(info.dtype(), info.data.data(), info.elements())) {
    throw bad_input("{}: tensor '{}' has values that are not numbers; the file is damaged", file_.path(), name);
  }
  return info;
}

void WeightLoader::loaded(const gguf::TensorInfo& info, bool used_in_place) {
  const auto start = static_cast<size_t>(info.data.data() - info.file->bytes().data());
  if (!used_in_place) info.file->release(start, info.data.size());  // these pages need not stay in memory
  done_ += info.data.size();
  if (progress_) progress_(done_, total_);
}

Tensor WeightLoader::matrix(const std::string& name, int64_t rows, int64_t columns) {
  const gguf::TensorInfo& info = checked(name, {rows, columns});
  const std::shared_ptr<const void> in_file(info.file, info.data.data());
  Tensor tensor = device_->upload_matrix(info.dtype(), rows, columns, in_file, &memory_);
  loaded(info, tensor.state().storage.get() == in_file.get());
  return tensor;
}

std::vector<float> WeightLoader::host_vector(const std::string& name, int64_t length) {
  const gguf::TensorInfo& info = checked(name, {length});
  std::vector<float> values(static_cast<size_t>(length));
  dequantize_row(info.dtype(), info.data.data(), values.data(), length);
  loaded(info);
  return values;
}

Tensor WeightLoader::vector(const std::string& name, int64_t length) {
  const std::vector<float> values = host_vector(name, length);
  return device_->upload(DType::f32, Shape{length}, values.data());
}

nn::Projection WeightLoader::linear(const std::string& prefix, int64_t rows, int64_t columns) {
  nn::Projection projection{.weight = matrix(prefix + ".weight", rows, columns)};
  if (has(prefix + ".bias")) projection.bias = vector(prefix + ".bias", rows);
  return projection;
}

}  // namespace gabbro::llm
