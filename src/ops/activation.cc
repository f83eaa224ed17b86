// Activations and softmax.
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {

// SiLU (Elfwing et al. 2018): y = x · sigmoid(x).
const Op kSilu = {
    .name = "silu",
    .infer = [](const Args& a) { return result(a[0].shape(), a[0].dtype()); },
    .compose = [](const Args& a) { return std::vector{a[0] * sigmoid(a[0])}; },
};

// y = exp(x - max x) / sum exp(x - max x) over the last axis.
const Op kSoftmax = {
    .name = "softmax",
    .infer = [](const Args& a) { return result(a[0].shape(), a[0].dtype()); },
    .compose =
        [](const Args& a) {
          if (is_half(a[0].dtype())) return std::vector{cast(softmax(cast(a[0], DType::f32)), a[0].dtype())};
          const Tensor e = exp(a[0] - max(a[0]));
          return std::vector{e / sum(e)};
        },
};

// y = (x - max x) - log sum exp(x - max x) over the last axis.
const Op kLogSoftmax = {
    .name = "log_softmax",
    .infer = [](const Args& a) { return result(a[0].shape(), a[0].dtype()); },
    .compose =
        [](const Args& a) {
          if (is_half(a[0].dtype())) return std::vector{cast(log_softmax(cast(a[0], DType::f32)), a[0].dtype())};
          const Tensor distance = a[0] - max(a[0]);
          return std::vector{distance - log(sum(exp(distance)))};
        },
};

Tensor silu(const Tensor& x) {
  require_dtype("silu", x, {DType::f32});
  return record(kSilu, {x});
}

Tensor softmax(const Tensor& x) {
  require_dtype("softmax", x, {DType::f32, DType::f16, DType::bf16});
  if (x.shape().rank() == 0) throw bad_input("[softmax] a scalar has no axis");
  return record(kSoftmax, {x});
}

Tensor log_softmax(const Tensor& x) {
  require_dtype("log_softmax", x, {DType::f32, DType::f16, DType::bf16});
  if (x.shape().rank() == 0) throw bad_input("[log_softmax] a scalar has no axis");
  return record(kLogSoftmax, {x});
}

}  // namespace gabbro
