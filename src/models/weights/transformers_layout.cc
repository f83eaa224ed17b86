#include "src/models/weights/transformers_layout.h"

#include <fmt/ranges.h>

#include <cstring>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/quant/quant.h"

namespace gabbro::llm {
namespace {

void multiply_row(DType dtype, std::byte* row, int64_t count, float factor) {
  std::vector<float> values(static_cast<size_t>(count));
  dequantize_row(dtype, row, values.data(), count);
  for (float& value : values) value *= factor;
  quantize_row(dtype, values.data(), row, count);
}

}  // namespace

TransformersLayout with_factor(float factor, TransformersLayout layout) {
  if (factor != 1) layout.factor = [factor](int64_t) { return factor; };
  return layout;
}

void copy_row(const CheckpointTensor& tensor, int64_t rows, const TransformersLayout& theirs, int64_t row,
              std::byte* out) {
  const std::byte* const data = tensor.data.data();
  const size_t count = static_cast<size_t>(rows), bytes = tensor.data.size() / count;
  const auto at = static_cast<size_t>((theirs.row ? theirs.row(row) : row) + theirs.skipped_rows);
  if (theirs.transposed || theirs.column) {  // of floats
    const size_t element = dtype_info(tensor.dtype()).block_bytes;
    for (size_t j = 0; j < bytes / element; ++j) {
      const size_t column = theirs.column ? static_cast<size_t>(theirs.column(static_cast<int64_t>(j))) : j;
      const size_t there =
          theirs.transposed ? column * count + static_cast<size_t>(row) : at * (bytes / element) + column;
      std::memcpy(out + j * element, data + there * element, element);
    }
  } else {
    std::memcpy(out, data + at * bytes, bytes);
  }
  if (theirs.factor) {
    const auto columns = static_cast<int64_t>(bytes / dtype_info(tensor.dtype()).block_bytes);
    multiply_row(tensor.dtype(), out, columns, theirs.factor(row));
  }
}

TransformersLayout paired_rows(int64_t head_dimension, int64_t rotated) {
  return {.row = [=](int64_t row) {
    const int64_t head = row / head_dimension, i = row % head_dimension;
    if (i >= rotated) return row;
    return head * head_dimension + i / 2 + (i % 2) * (rotated / 2);
  }};
}

std::vector<const CheckpointTensor*> stacked_tensors(std::span<const WeightName> names, const Checkpoint& checkpoint,
                                                     const std::string& name, int64_t rows, int64_t columns) {
  const std::string pattern = weight_pattern(names, checkpoint, name);
  std::vector<const CheckpointTensor*> tensors;
  for (int64_t i = 0; i < rows; ++i) {
    const CheckpointTensor& row = checkpoint.require_tensor(numbered(pattern, i));
    if (row.shape != std::vector{columns}) {
      throw bad_input("{}: tensor {} has shape ({}), the model's sizes ask for ({})", checkpoint.path(),
                      quote(row.name), fmt::join(row.shape, ", "), columns);
    }
    tensors.push_back(&row);
  }
  return tensors;
}

std::vector<float> float_values(const CheckpointTensor& tensor, int64_t count, const TransformersLayout& theirs) {
  const auto elements = static_cast<size_t>(tensor.elements());
  std::vector<float> stored(elements);
  const std::vector<std::byte> aligned(tensor.data.begin(), tensor.data.end());
  dequantize_row(tensor.dtype(), aligned.data(), stored.data(), std::ssize(stored));
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t there = theirs.element ? theirs.element(i) : theirs.row ? theirs.row(i) : i;
    const float value = stored[static_cast<size_t>(there)] + theirs.offset;
    values[static_cast<size_t>(i)] = theirs.value != nullptr ? theirs.value(value) : value;
  }
  return values;
}

}  // namespace gabbro::llm
