// Activations and softmax.
#include "src/ops/autocast.h"
#include "src/ops/gradient_rules.h"
#include "src/ops/last_axis.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

// Kernels know the last axis alone.
Tensor along(const Op& op, const Tensor& x, int64_t axis) {
  require_dtype(op.name, x, kFloating);
  const int index = x.shape().axis(op.name, axis);
  return axis_from_last(record(op, {axis_to_last(for_sum(x), index)}), index);
}

}  // namespace

// SiLU (Elfwing et al. 2018): y = x · sigmoid(x).
const Op kSilu = {
    .name = "silu",
    .infer = like_first,
    .compose =
        [](const Args& a) {
          return std::vector{computed_in_f32(a[0], [](const Tensor& x) { return x * sigmoid(x); })};
        },
    // With s = sigmoid(x): s · (1 + x · (1 - s)).
    .gradient =
        [](const GradientArgs& a) {
          return elementwise_gradient(a, [](const Tensor& x, const Tensor&, const Tensor& dy) {
            const Tensor s = sigmoid(x), one = number_like(x, 1);
            return dy * s * (one + x * (one - s));
          });
        },
    .elementwise = true,
};

// y = max(x, 0).
const Op kRelu = {
    .name = "relu",
    .infer = like_first,
    .compose =
        [](const Args& a) {
          return std::vector{computed_in_f32(a[0], [](const Tensor& x) { return maximum(x, number_like(x, 0)); })};
        },
    // 0 at 0; dy at a NaN.
    .gradient = [](const GradientArgs& a) -> Gradients {
      const Tensor zero = number_like(a[0], 0);
      return {where(less_equal(a.outputs[0], zero), zero, a.gradients[0])};
    },
    .elementwise = true,
};

// GELU (Hendrycks & Gimpel 2016): y = x · Φ(x) = x/2 · (1 + erf(x/√2)).
const Op kGelu = {
    .name = "gelu",
    .infer = like_first,
    .compose =
        [](const Args& a) {
          return std::vector{computed_in_f32(a[0], [](const Tensor& x) {
            const Tensor root_half = number_like(x, 0.70710678118654752), half = number_like(x, 0.5);
            return half * x * (number_like(x, 1) + erf(x * root_half));
          })};
        },
    // Φ(x) + x · φ(x).
    .gradient =
        [](const GradientArgs& a) {
          return elementwise_gradient(a, [](const Tensor& x, const Tensor&, const Tensor& dy) {
            const Tensor half = number_like(x, 0.5);
            const Tensor below = half * erf(x * number_like(x, 0.70710678118654752)) + half;
            const Tensor density = exp(neg(x * x * half)) * number_like(x, 0.39894228040143268);  // 1/√(2π)
            return dy * (below + x * density);
          });
        },
    .elementwise = true,
};

// As gelu, with tanh(√(2/π) · (x + 0.044715·x³)) for erf(x/√2).
const Op kGeluTanh = {
    .name = "gelu_tanh",
    .infer = like_first,
    .compose =
        [](const Args& a) {
          return std::vector{computed_in_f32(a[0], [](const Tensor& x) {
            const Tensor inner = x + number_like(x, 0.044715) * x * x * x;
            const Tensor y = number_like(x, 1) + tanh(number_like(x, 0.79788456080286536) * inner);
            return number_like(x, 0.5) * x * y;
          })};
        },
    // With t the hyperbolic tangent: (1 + t + x · (1 - t²) · √(2/π) · (1 + 3 · 0.044715 · x²)) / 2.
    .gradient =
        [](const GradientArgs& a) {
          return elementwise_gradient(a, [](const Tensor& x, const Tensor&, const Tensor& dy) {
            const Tensor one = number_like(x, 1), root = number_like(x, 0.79788456080286536), square = x * x;
            const Tensor t = tanh(root * x * (one + square * number_like(x, 0.044715)));
            const Tensor slope = root * (one + square * number_like(x, 3 * 0.044715));
            return dy * number_like(x, 0.5) * (one + t + x * (one - t * t) * slope);
          });
        },
    .elementwise = true,
};

// y = exp(x - max x) / sum exp(x - max x) over the last axis.
const Op kSoftmax = {
    .name = "softmax",
    .infer = like_first,
    .compose =
        [](const Args& a) {
          if (is_half(a[0].dtype())) return std::vector{cast(softmax(cast(a[0], DType::f32)), a[0].dtype())};
          const Tensor e = exp(a[0] - max(a[0], -1, kKeepDims));
          return std::vector{e / sum(e, -1, kKeepDims)};
        },
    .gradient =
        [](const GradientArgs& a) {
          return elementwise_gradient(a, [](const Tensor&, const Tensor& y, const Tensor& dy) {
            const Tensor share = y * dy;
            return share - y * sum(share, -1, kKeepDims);
          });
        },
};

// y = (x - max x) - log sum exp(x - max x) over the last axis.
const Op kLogSoftmax = {
    .name = "log_softmax",
    .infer = like_first,
    .compose =
        [](const Args& a) {
          if (is_half(a[0].dtype())) return std::vector{cast(log_softmax(cast(a[0], DType::f32)), a[0].dtype())};
          const Tensor distance = a[0] - max(a[0], -1, kKeepDims);
          return std::vector{distance - log(sum(exp(distance), -1, kKeepDims))};
        },
    .gradient =
        [](const GradientArgs& a) {
          return elementwise_gradient(
              a, [](const Tensor&, const Tensor& y, const Tensor& dy) { return dy - exp(y) * sum(dy, -1, kKeepDims); });
        },
};

Tensor silu(const Tensor& x) {
  require_dtype("silu", x, kFloating);
  return record(kSilu, {x});
}

Tensor relu(const Tensor& x) {
  require_dtype("relu", x, kFloating);
  return record(kRelu, {x});
}

Tensor gelu(const Tensor& x, bool approximate) {
  require_dtype("gelu", x, kFloating);
  return record(approximate ? kGeluTanh : kGelu, {x});
}

Tensor softmax(const Tensor& x, int64_t axis) { return along(kSoftmax, x, axis); }
Tensor log_softmax(const Tensor& x, int64_t axis) { return along(kLogSoftmax, x, axis); }

}  // namespace gabbro
