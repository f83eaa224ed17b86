// Tensors that come from no other tensor.
#include "src/backend/device.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {

// Element i is start + i·step.
const Op kIota = {
    .name = "iota",
    .infer =
        [](const Args& a) {
          return result(Shape{a.attributes.integer("count")}, static_cast<DType>(a.attributes.integer("dtype")));
        },
};

Tensor from_host(const DevicePointer& device, DType dtype, const Shape& shape, std::span<const std::byte> bytes) {
  const auto elements = static_cast<size_t>(shape.elements());
  const bool whole_blocks = elements % dtype_info(dtype).block_elements == 0;
  if (!whole_blocks || bytes.size() != dtype_bytes(dtype, elements)) {
    throw bad_input("[tensor] {} bytes are not a {} tensor of shape {}", bytes.size(), dtype_name(dtype),
                    shape.to_string());
  }
  return device->upload(dtype, shape, bytes.data());
}

Tensor iota(const std::shared_ptr<Device>& device, int64_t count, DType dtype, double start, double step) {
  if (is_quantized(dtype)) throw bad_input("[iota] does not give {}", dtype_name(dtype));
  if (count < 0) throw bad_input("[iota] {} elements", count);
  return record(kIota, {}, {{"count", count}, {"dtype", static_cast<int64_t>(dtype)}, {"start", start}, {"step", step}},
                device);
}

Tensor full(const std::shared_ptr<Device>& device, const Shape& shape, const Number& number, DType dtype) {
  if (is_quantized(dtype)) throw bad_input("[full] does not give {}", dtype_name(dtype));
  const double real = dtype == DType::boolean ? (number.real() != 0 ? 1 : 0) : number.real();
  Attributes attributes{{"count", int64_t{1}}, {"dtype", static_cast<int64_t>(dtype)}, {"start", real}, {"step", 0.0}};
  if (dtype == DType::i64) attributes.set("start", number.integer());
  const Tensor one = record(kIota, {}, std::move(attributes), device);
  return shape.rank() == 0 ? reshape(one, shape) : broadcast_to(one, shape);
}

Tensor scalar(const std::shared_ptr<Device>& device, double value, DType dtype) {
  return iota(device, 1, dtype, value, 0);
}

}  // namespace gabbro
