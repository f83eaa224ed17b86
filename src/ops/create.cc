// Tensors that come from no other tensor.
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

Tensor iota(const std::shared_ptr<Device>& device, int64_t count, DType dtype, double start, double step) {
  if (dtype != DType::f32 && dtype != DType::i32) throw bad_input("[iota] gives f32 or i32, not {}", dtype_name(dtype));
  if (count < 0) throw bad_input("[iota] {} elements", count);
  return record(kIota, {}, {{"count", count}, {"dtype", static_cast<int64_t>(dtype)}, {"start", start}, {"step", step}},
                device);
}

Tensor scalar(const std::shared_ptr<Device>& device, double value, DType dtype) {
  return iota(device, 1, dtype, value, 0);
}

}  // namespace gabbro
