// Activations and softmax.
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

constexpr std::initializer_list<DType> kReal = {DType::f32, DType::f16, DType::bf16};

// f(x) in f32, rounded to x's dtype.
template <class F>
std::vector<Tensor> in_f32(const Tensor& x, F f) {
  return {cast(f(cast(x, DType::f32)), x.dtype())};
}

}  // namespace

// SiLU (Elfwing et al. 2018): y = x · sigmoid(x).
const Op kSilu = {
    .name = "silu",
    .infer = [](const Args& a) { return result(a[0].shape(), a[0].dtype()); },
    .compose = [](const Args& a) { return in_f32(a[0], [](const Tensor& x) { return x * sigmoid(x); }); },
};

// y = max(x, 0).
const Op kRelu = {
    .name = "relu",
    .infer = [](const Args& a) { return result(a[0].shape(), a[0].dtype()); },
    .compose =
        [](const Args& a) { return in_f32(a[0], [](const Tensor& x) { return maximum(x, scalar(x.device(), 0)); }); },
};

// GELU (Hendrycks & Gimpel 2016): y = x · Φ(x) = x/2 · (1 + erf(x/√2)).
const Op kGelu = {
    .name = "gelu",
    .infer = [](const Args& a) { return result(a[0].shape(), a[0].dtype()); },
    .compose =
        [](const Args& a) {
          return in_f32(a[0], [](const Tensor& x) {
            const Tensor root_half = scalar(x.device(), 0.70710678118654752), half = scalar(x.device(), 0.5);
            return half * x * (scalar(x.device(), 1) + erf(x * root_half));
          });
        },
};

// The same with tanh(√(2/π) · (x + 0.044715·x³)) for erf(x/√2).
const Op kGeluTanh = {
    .name = "gelu_tanh",
    .infer = [](const Args& a) { return result(a[0].shape(), a[0].dtype()); },
    .compose =
        [](const Args& a) {
          return in_f32(a[0], [](const Tensor& x) {
            const Tensor inner = x + scalar(x.device(), 0.044715) * x * x * x;
            const Tensor y = scalar(x.device(), 1) + tanh(scalar(x.device(), 0.79788456080286536) * inner);
            return scalar(x.device(), 0.5) * x * y;
          });
        },
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
  require_dtype("silu", x, kReal);
  return record(kSilu, {x});
}

Tensor relu(const Tensor& x) {
  require_dtype("relu", x, kReal);
  return record(kRelu, {x});
}

Tensor gelu(const Tensor& x, bool approximate) {
  require_dtype("gelu", x, kReal);
  return record(approximate ? kGeluTanh : kGelu, {x});
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
