// Rows by index, concatenation, and block formats back to floats.
#include "src/base/input_errors.h"
#include "src/ops/gradient_rules.h"
#include "src/ops/index_rules.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {

const Op kGather = {
    .name = "gather",
    .infer =
        [](const Args& a) {
          std::vector<int64_t> lengths(a[0].shape().lengths().begin(), a[0].shape().lengths().end());
          lengths[0] = a[1].shape()[0];
          return result(Shape(lengths), a[0].dtype());
        },
    .gradient = [](const GradientArgs& a) -> Gradients {
      return {add_rows(filled_like(a[0], a[0].shape(), 0), a[1], a.gradients[0], a.attributes), Tensor()};
    },
};

const Op kConcat = {
    .name = "concat",
    .infer =
        [](const Args& a) {
          const auto axis = static_cast<size_t>(a.attributes.integer("axis"));
          std::vector<int64_t> lengths(a[0].shape().lengths().begin(), a[0].shape().lengths().end());
          for (size_t i = 1; i < a.size(); ++i) lengths[axis] += a[i].shape().lengths()[axis];
          return result(Shape(lengths), a[0].dtype());
        },
    .gradient =
        [](const GradientArgs& a) {
          const int64_t axis = a.attributes.integer("axis");
          Gradients gradients;
          int64_t start = 0;
          for (const Tensor& part : a.inputs) {
            const int64_t length = part.shape()[static_cast<int>(axis)];
            gradients.push_back(slice(a.gradients[0], axis, start, length));
            start += length;
          }
          return gradients;
        },
};

const Op kDequantize = {.name = "dequantize", .infer = [](const Args& a) { return result(a[0].shape(), DType::f32); }};

Tensor gather(const Tensor& x, const Tensor& indices) {
  require_plain("gather", x);
  require_dtype("gather", indices, {DType::i8, DType::u8, DType::i16, DType::i32, DType::i64});
  require_rank("gather", indices, 1);
  if (x.shape().rank() == 0) throw bad_input("[gather] a scalar has no rows");
  if (x.shape()[0] == 0 && indices.shape()[0] > 0)
    throw bad_index("[gather] shape {} has no rows to take", x.shape().to_string());
  return gather_rows(x, readable_indices(indices, x.shape()[0], {"gather"}), {});
}

Tensor gather_rows(const Tensor& x, const Tensor& indices, const Attributes& attributes) {
  return record(kGather, {x, indices}, attributes);
}

Tensor concat(const std::vector<Tensor>& parts, int64_t axis) {
  if (parts.empty()) throw bad_input("[concat] nothing to concatenate");
  for (const Tensor& part : parts) require_plain("concat", part);
  const int64_t index = parts[0].shape().axis("concat", axis);
  DType dtype = parts[0].dtype();
  for (const Tensor& part : parts) {
    dtype = promote(dtype, part.dtype());
    bool fits = part.shape().rank() == parts[0].shape().rank();
    for (int i = 0; fits && i < part.shape().rank(); ++i) fits = i == index || part.shape()[i] == parts[0].shape()[i];
    if (!fits) {
      throw bad_input("[concat] {} {} does not fit {} {} along axis {}", dtype_name(part.dtype()),
                      part.shape().to_string(), dtype_name(parts[0].dtype()), parts[0].shape().to_string(), axis);
    }
  }
  std::vector<Tensor> alike;
  for (const Tensor& part : parts) alike.push_back(cast(part, dtype));
  return record(kConcat, std::move(alike), {{"axis", index}});
}

Tensor dequantize(const Tensor& weight) {
  require_rank("dequantize", weight, 2);
  if (!is_quantized(weight.dtype()) && !weight.spec().packed) return cast(weight, DType::f32);
  return record(kDequantize, {weight});
}

}  // namespace gabbro
