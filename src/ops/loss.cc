// Losses: compositions, in f32.
#include "src/ops/autocast.h"
#include "src/ops/functions/labels.h"
#include "src/ops/gradient_rules.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

// A number of shape (), so that losses of tensors of shape () keep it.
Tensor constant(const Tensor& like, double value) { return full(like.device(), Shape{}, value, DType::f32); }

// All elements of `losses` as `reduce` says, in the dtype of x.
Tensor reduced(const Tensor& losses, const Tensor& x, Reduce reduce) {
  if (reduce == Reduce::kNone) return cast(losses, x.dtype());
  const Tensor flat = reshape(losses, Shape{losses.shape().elements()});
  return cast(reshape(reduce == Reduce::kMean ? mean(flat, -1) : sum(flat, -1), Shape{}), x.dtype());
}

void require_pair(const char* op, const Tensor& x, const Tensor& target) {
  require_dtype(op, x, kReal);
  require_dtype(op, target, kReal);
  if (!(x.shape() == target.shape()) || x.dtype() != target.dtype()) {
    throw bad_input("[{}] x is {} {} and the target {} {}", op, dtype_name(x.dtype()), x.shape().to_string(),
                    dtype_name(target.dtype()), target.shape().to_string());
  }
}

void require_classes(const char* op, const Tensor& x, const Tensor& target) {
  require_dtype(op, x, kReal);
  require_rank(op, x, 2);
  require_index_dtype(op, target);
  if (!(target.shape() == Shape{x.shape()[0]}) || x.shape()[1] == 0) {
    throw bad_input("[{}] targets {} for x {}", op, target.shape().to_string(), x.shape().to_string());
  }
}

// `picked` [N]: the logarithms of the targets' probabilities, in f32.
Tensor negative_log_likelihood(const Tensor& picked, const Tensor& target, Reduce reduce, int32_t ignored) {
  const int64_t rows = target.shape()[0];
  const Tensor counted = counted_labels(target, ignored);  // [N]
  const Tensor losses = where(counted, neg(reshape(picked, Shape{rows})), constant(picked, 0));
  if (reduce == Reduce::kNone) return losses;
  const Tensor total = sum(losses, -1, kKeepDims);
  return reshape(reduce == Reduce::kSum ? total : total / sum(cast(counted, DType::f32), -1, kKeepDims), Shape{});
}

// log(x) and log(1 - x), not below -100.
struct Logarithms {
  Tensor hit, miss;
};

Logarithms logarithms(const Tensor& x) {
  const Tensor least = constant(x, -100);
  return {.hit = maximum(log(x), least), .miss = maximum(log1p(neg(x)), least)};
}

}  // namespace

// x and target in f32, elementwise: -target · log x - (1 - target) · log(1 - x), logarithms not below -100.
const Op kBce = {
    .name = "bce",
    .infer = [](const Args& a) { return result(a[0].shape(), DType::f32); },
    .compose =
        [](const Args& a) {
          const Logarithms l = logarithms(a[0]);
          return std::vector{neg(a[1] * l.hit + (constant(a[0], 1) - a[1]) * l.miss)};
        },
    // (x - target) / (x · (1 - x)), divided by 1e-12 at least, as PyTorch has it; finite where a logarithm is not.
    .gradient = [](const GradientArgs& a) -> Gradients {
      const Tensor &x = a[0], &dy = a.gradients[0];
      const Tensor divisor = maximum(x * (constant(x, 1) - x), constant(x, 1e-12));
      const Logarithms l = logarithms(x);
      return {dy * (x - a[1]) / divisor, dy * (l.miss - l.hit)};
    },
};

// x f32 [N, V], labels i32 [N, 1] to log_softmax(x) at the labels [N, 1], 0 for an ignored one, and everywhere [N, V].
// As one op: the gradient of the parts would be a tensor of zeros with one number a row, read again to sum it up.
const Op kLabelLogProbability = {
    .name = "label_log_probability",
    .infer =
        [](const Args& a) {
          return std::vector<TensorSpec>{{.shape = a[1].shape(), .dtype = DType::f32},
                                         {.shape = a[0].shape(), .dtype = DType::f32}};
        },
    .compose =
        [](const Args& a) {
          const Tensor y = log_softmax(a[0]);
          return std::vector{take_along_last(y, a[1], a.attributes), y};
        },
    // dpicked · (1 at the label - softmax(x)), and that of log_softmax.
    .gradient = [](const GradientArgs& a) -> Gradients {
      const int64_t classes = a[0].shape()[1];
      const Tensor probability = exp(a.outputs[1]), &dpicked = a.gradients[0], &dy = a.gradients[1];
      Tensor dx;
      if (dpicked.defined()) {
        const Tensor label = positions_of(a[1], classes, a.attributes), zero = constant(a[0], 0);
        const Tensor counted = counted_labels(a[1], a.attributes.integer("ignored"));
        const Tensor d = where(counted, dpicked, zero);  // [N, 1]
        const Tensor hit = equal(label, iota(dpicked.device(), classes, DType::i32));
        dx = (cast(hit, DType::f32) - probability) * d;
      }
      if (dy.defined()) {
        const Tensor other = dy - probability * sum(dy, -1, kKeepDims);
        dx = dx.defined() ? dx + other : other;
      }
      return {dx, Tensor()};
    },
};

Tensor mse_loss(const Tensor& input, const Tensor& wanted, Reduce reduce) {
  const Tensor x = for_sum(input), target = for_sum(wanted);
  require_pair("mse_loss", x, target);
  const Tensor difference = in_f32(x) - in_f32(target);
  return reduced(difference * difference, x, reduce);
}

Tensor l1_loss(const Tensor& input, const Tensor& wanted, Reduce reduce) {
  const Tensor x = for_sum(input), target = for_sum(wanted);
  require_pair("l1_loss", x, target);
  return reduced(abs(in_f32(x) - in_f32(target)), x, reduce);
}

Tensor bce_loss(const Tensor& input, const Tensor& wanted, Reduce reduce) {
  const Tensor x = for_sum(input), target = for_sum(wanted);
  require_pair("bce_loss", x, target);
  return reduced(record(kBce, {in_f32(x), in_f32(target)}), x, reduce);
}

Tensor kl_div(const Tensor& input, const Tensor& wanted, Reduce reduce) {
  const Tensor x = for_sum(input), target = for_sum(wanted);
  require_pair("kl_div", x, target);
  const Tensor t = in_f32(target);
  const Tensor own = t * log(where(equal(t, constant(x, 0)), constant(x, 1), t));  // no logarithm of 0
  return reduced(own - t * in_f32(x), x, reduce);
}

Tensor nll_loss(const Tensor& x, const Tensor& target, Reduce reduce, int32_t ignored) {
  require_classes("nll_loss", x, target);
  const Tensor labels = reshape(target, Shape{x.shape()[0], 1});
  const Tensor picked = take_labels(in_f32(x), labels, {.op = "nll_loss", .axis = 1}, ignored);
  return cast(negative_log_likelihood(picked, target, reduce, ignored), for_sum(x).dtype());
}

Tensor cross_entropy(const Tensor& x, const Tensor& target, Reduce reduce, int32_t ignored) {
  require_classes("cross_entropy", x, target);
  const IndexUse use{.op = "cross_entropy", .axis = 1};
  const Attributes attributes = label_attributes(use, ignored);
  const Tensor labels = reshape(target, Shape{x.shape()[0], 1});
  const Tensor readable = readable_indices(labels, x.shape()[1], use, attributes);
  const Tensor picked = record_all(kLabelLogProbability, {in_f32(x), readable}, attributes)[0];
  return cast(negative_log_likelihood(picked, target, reduce, ignored), for_sum(x).dtype());
}

}  // namespace gabbro
