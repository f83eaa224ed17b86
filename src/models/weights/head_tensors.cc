#include "src/models/weights/head_tensors.h"

#include <fmt/ranges.h>

#include <cstring>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/quant/quant.h"

namespace gabbro::llm {

HeadTensors::HeadTensors(std::span<const WeightName> names, const Checkpoint& checkpoint, const std::string& name,
                         const HeadMatrices& size)
    : size_(size),
      tensor_(&checkpoint.require_tensor(weight_name(names, checkpoint, name))),
      whole_(tensor_->shape == size.shape()) {
  if (whole_ || tensor_->shape == size.stored_shape()) return;
  throw bad_input("{}: tensor {} has shape ({}), the model's sizes ask for ({})", checkpoint.path(),
                  quote(tensor_->name), fmt::join(tensor_->shape, ", "), fmt::join(size.stored_shape(), ", "));
}

DType HeadTensors::dtype() const {
  const DType dtype = tensor_->dtype();
  return size_.transposed && !whole_ && is_quantized(dtype) ? DType::f16 : dtype;
}

const std::byte* HeadTensors::stored_row(int64_t head, int64_t row) const {
  const size_t bytes = tensor_->data.size() / static_cast<size_t>(size_.heads * size_.stored);
  return tensor_->data.data() + static_cast<size_t>(head * size_.stored + size_.first + row) * bytes;
}

const std::byte* HeadTensors::row(int64_t row) const {
  if (!whole_) return stored_row(row / size_.rows, row % size_.rows);
  return tensor_->data.data() + static_cast<size_t>(row) * dtype_bytes(dtype(), static_cast<size_t>(size_.columns));
}

void HeadTensors::copy_row(int64_t row, std::byte* out) const {
  const int64_t head = row / size_.rows, within = row % size_.rows;
  const size_t bytes = dtype_bytes(dtype(), static_cast<size_t>(size_.columns));
  if (has_rows()) {
    std::memcpy(out, this->row(row), bytes);
  } else if (is_quantized(tensor_->dtype())) {
    std::vector<std::byte> all(bytes * static_cast<size_t>(size_.rows));
    copy_head(head, all.data());
    std::memcpy(out, all.data() + static_cast<size_t>(within) * bytes, bytes);
  } else {
    const size_t element = dtype_info(dtype()).block_bytes;
    for (int64_t j = 0; j < size_.columns; ++j)
      std::memcpy(out + j * element, stored_row(head, j) + within * element, element);
  }
}

void HeadTensors::copy_head(int64_t head, std::byte* out) const {
  const size_t bytes = dtype_bytes(dtype(), static_cast<size_t>(size_.columns));
  if (whole_ || !size_.transposed || !is_quantized(tensor_->dtype())) {
    for (int64_t i = 0; i < size_.rows; ++i) copy_row(head * size_.rows + i, out + static_cast<size_t>(i) * bytes);
    return;
  }
  std::vector<float> row(static_cast<size_t>(size_.rows)), values(static_cast<size_t>(size_.rows * size_.columns));
  for (int64_t j = 0; j < size_.columns; ++j) {
    dequantize_row(tensor_->dtype(), stored_row(head, j), row.data(), size_.rows);
    for (int64_t i = 0; i < size_.rows; ++i)
      values[static_cast<size_t>(i * size_.columns + j)] = row[static_cast<size_t>(i)];
  }
  quantize_row(dtype(), values.data(), out, std::ssize(values));
}

}  // namespace gabbro::llm
