#include "src/formats/transposed_tensor.h"

#include <cstring>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/quant/quant.h"
#include "src/formats/quantized_folders/derived_data.h"

namespace gabbro {

CheckpointTensor transposed_tensor(const CheckpointTensor& tensor) {
  if (tensor.shape.size() != 2)
    throw bad_input("{}: tensor {} is not a matrix", tensor.file->path(), quote(tensor.name));
  const auto rows = static_cast<size_t>(tensor.shape[0]), columns = static_cast<size_t>(tensor.shape[1]);
  const DType stored = tensor.dtype(), dtype = is_quantized(stored) ? DType::f32 : stored;
  const size_t element = dtype_bytes(dtype, 1), bytes = rows * columns * element;
  const auto memory = reserve_memory(tensor.file->path(), bytes);
  const std::span out(const_cast<std::byte*>(memory->bytes().data()), bytes);  // reserved to be written
  const auto fill = [tensor, rows, columns, element, stored, dtype](std::span<std::byte> to) {
    tensor.prepare();
    std::vector<std::byte> values;
    const std::byte* from = tensor.data.data();
    if (dtype != stored) {
      values.resize(rows * columns * element);
      dequantize_row(stored, from, reinterpret_cast<float*>(values.data()), static_cast<int64_t>(rows * columns));
      from = values.data();
    }
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < columns; ++c)
        std::memcpy(to.data() + (c * rows + r) * element, from + (r * columns + c) * element, element);
    }
    tensor.release();
  };
  CheckpointTensor result = tensor;
  result.known_dtype = dtype;
  result.shape = {tensor.shape[1], tensor.shape[0]};
  result.data = out;
  result.file = memory;
  result.derived = std::make_shared<DerivedData>(memory, out, fill);
  return result;
}

}  // namespace gabbro
