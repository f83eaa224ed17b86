#include "src/models/weights/weight_memory.h"

#include "src/backend/device.h"
#include "src/formats/quant/quant.h"

namespace gabbro::llm {

WeightMemory::WeightMemory(std::shared_ptr<Device> device, size_t bytes, bool in_place)
    : device_(std::move(device)), block_(device_, bytes), in_place_(in_place) {}

Tensor WeightMemory::matrix(DType dtype, int64_t rows, int64_t columns, const std::shared_ptr<const void>& bytes) {
  if (in_place_ || device_->matrix_bytes(dtype, rows, columns) > 0)
    return device_->upload_matrix(dtype, rows, columns, bytes, &block_);
  const size_t size = dtype_bytes(dtype, static_cast<size_t>(rows * columns));
  const std::shared_ptr<void> own = block_.take(size);
  device_->copy_to_device(own.get(), bytes.get(), size);
  return device_->tensor_in(own, dtype, Shape{rows, columns});
}

Tensor WeightMemory::tensor(std::span<const float> values, const Shape& shape, DType dtype) {
  if (dtype != DType::f32) {
    std::vector<std::byte> rounded(dtype_bytes(dtype, values.size()));
    if (!values.empty()) quantize_row(dtype, values.data(), rounded.data(), std::ssize(values));
    return device_->upload(dtype, shape, rounded.data());
  }
  if (shape.rank() != 2) return device_->upload(DType::f32, shape, values.data());
  const auto copy = std::make_shared<std::vector<float>>(values.begin(), values.end());
  const std::shared_ptr<const void> bytes(copy, copy->data());
  // The block has room for these only where it holds all matrices.
  return in_place_ ? device_->upload_matrix(DType::f32, shape[0], shape[1], bytes)
                   : matrix(DType::f32, shape[0], shape[1], bytes);
}

}  // namespace gabbro::llm
