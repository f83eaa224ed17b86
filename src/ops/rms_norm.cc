// Normalization.
#include "src/ops/gradient_rules.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {

// RMSNorm (Zhang & Sennrich 2019): y = x / sqrt(mean(x²) + epsilon) · weight, over the last axis, accumulated in f32.
const Op kRmsNorm = {
    .name = "rms_norm",
    .infer = like_first,
    .compose =
        [](const Args& a) {
          const Tensor x = cast(a[0], DType::f32);
          const Tensor scale = rsqrt(mean(x * x, -1, kKeepDims) + scalar(x.device(), a.attributes.real("epsilon")));
          return std::vector{cast(x * scale * cast(a[1], DType::f32), a[0].dtype())};
        },
    .gradient = [](const GradientArgs& a) -> Gradients {
      const Tensor x = cast(a[0], DType::f32), dy = cast(a.gradients[0], DType::f32);
      const Tensor scale = rsqrt(mean(x * x, -1, kKeepDims) + number_like(x, a.attributes.real("epsilon")));
      const Tensor y = x * scale, d = dy * cast(a[1], DType::f32);
      return {cast(scale * (d - y * mean(d * y, -1, kKeepDims)), a[0].dtype()),
              cast(sum_to(dy * y, a[1].shape()), a[1].dtype())};
    },
};

Tensor rms_norm(const Tensor& x, const Tensor& weight, float epsilon) {
  require_dtype("rms_norm", x, kReal);
  require_dtype("rms_norm", weight, {DType::f32, x.dtype()});
  const int rank = x.shape().rank();
  if (rank == 0 || !(weight.shape() == Shape{x.shape()[rank - 1]})) {
    throw bad_input("[rms_norm] weight {} does not match the last axis of {}", weight.shape().to_string(),
                    x.shape().to_string());
  }
  return record(kRmsNorm, {x, weight}, {{"epsilon", static_cast<double>(epsilon)}});
}

}  // namespace gabbro
