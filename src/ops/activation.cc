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
          const Tensor e = exp(a[0] - max(a[0]));
          return std::vector{e / sum(e)};
        },
};

Tensor silu(const Tensor& x) {
  require_dtype("silu", x, {DType::f32});
  return record(kSilu, {x});
}

Tensor softmax(const Tensor& x) {
  require_dtype("softmax", x, {DType::f32});
  if (x.shape().rank() == 0) throw bad_input("[softmax] a scalar has no axis");
  return record(kSoftmax, {x});
}

}  // namespace gabbro
