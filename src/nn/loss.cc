#include "gabbro/nn/loss.h"

#include "src/base/error.h"
#include "src/ops/autocast.h"
#include "src/ops/functions/labels.h"
#include "src/ops/functions/smooth.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro::nn {
namespace {

// x - target in f32.
Tensor difference(const char* op, const Tensor& x, const Tensor& target) {
  require_dtype(op, x, kReal);
  require_dtype(op, target, kReal);
  if (!(x.shape() == target.shape())) {
    throw bad_input("[{}] x is {} and the target {}", op, x.shape().to_string(), target.shape().to_string());
  }
  return in_f32(x) - in_f32(target);
}

Tensor reduced(const Tensor& losses, const Tensor& x, Reduce reduce) {
  const DType dtype = for_sum(x).dtype();
  if (reduce == Reduce::kNone) return cast(losses, dtype);
  return cast(reduce == Reduce::kMean ? mean(losses, kAllAxes) : sum(losses, kAllAxes), dtype);
}

// [N, V, ...] as [N · ..., V].
Tensor class_rows(const Tensor& x) {
  const Tensor last = x.shape().rank() > 2 ? moveaxis(x, {1}, {-1}) : x;
  const int64_t classes = x.shape()[1];
  return reshape(last, Shape{classes == 0 ? 0 : x.shape().elements() / classes, classes});
}

Shape without_classes(const Tensor& x) {
  std::vector<int64_t> lengths = lengths_of(x);
  lengths.erase(lengths.begin() + 1);
  return Shape(lengths);
}

void require_smoothing(const CrossEntropy& o) {
  if (!(o.label_smoothing >= 0 && o.label_smoothing <= 1))
    throw bad_input("[cross_entropy] a label smoothing of {}", o.label_smoothing);
}

// Targets are probabilities of the classes, of x's shape [N, V, ...]; the mean is over all but the classes, as PyTorch
// has it.
Tensor cross_entropy_of_probabilities(const Tensor& x, const Tensor& target, const CrossEntropy& o) {
  if (x.shape().rank() < 2 || !(target.shape() == x.shape()) || x.shape()[1] == 0) {
    throw bad_input("[cross_entropy] targets of {} are probabilities of the shape of x {}, not {}: labels are integers",
                    dtype_name(target.dtype()), x.shape().to_string(), target.shape().to_string());
  }
  require_smoothing(o);
  const Tensor logarithms = log_softmax(in_f32(class_rows(x)));  // [R, V]
  const int64_t rows = logarithms.shape()[0], classes = logarithms.shape()[1];
  Tensor shares = in_f32(class_rows(target));  // [R, V]
  if (o.label_smoothing > 0)
    shares = shares * (1 - o.label_smoothing) + o.label_smoothing / static_cast<double>(classes);
  if (o.weight.defined()) {
    if (!(o.weight.shape() == Shape{classes})) {
      throw bad_input("[cross_entropy] weights {} for x {}", o.weight.shape().to_string(), x.shape().to_string());
    }
    shares = shares * in_f32(o.weight);
  }
  const Tensor losses = neg(sum(logarithms * shares, -1));  // [R]
  const DType dtype = for_sum(x).dtype();
  if (o.reduce == Reduce::kNone) return cast(reshape(losses, without_classes(x)), dtype);
  return cast(o.reduce == Reduce::kSum ? sum(losses, kAllAxes) : sum(losses, kAllAxes) / static_cast<double>(rows),
              dtype);
}

}  // namespace

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, Reduce reduce, double beta) {
  if (!(beta >= 0)) throw bad_input("[smooth_l1_loss] a beta of {}", beta);
  const Tensor d = difference("smooth_l1_loss", x, target), far = abs(d);
  if (beta == 0) return reduced(far, x, reduce);
  const Tensor is_far = greater_equal(far, weak(d, beta)), near = where(is_far, weak(d, 0), d);
  return reduced(where(is_far, far - 0.5 * beta, near * near * (0.5 / beta)), x, reduce);
}

Tensor huber_loss(const Tensor& x, const Tensor& target, Reduce reduce, double delta) {
  if (!(delta > 0)) throw bad_input("[huber_loss] a delta of {}", delta);
  const Tensor d = difference("huber_loss", x, target), far = abs(d);
  const Tensor is_far = greater(far, weak(d, delta)), near = where(is_far, weak(d, 0), d);
  return reduced(where(is_far, (far - 0.5 * delta) * delta, near * near * 0.5), x, reduce);
}

Tensor bce_with_logits(const Tensor& x, const Tensor& target, const BceWithLogits& options) {
  require_dtype("bce_with_logits", x, kReal);
  require_dtype("bce_with_logits", target, kReal);
  if (!(x.shape() == target.shape())) {
    throw bad_input("[bce_with_logits] x is {} and the target {}", x.shape().to_string(), target.shape().to_string());
  }
  for (const Tensor* weight : {&options.weight, &options.pos_weight}) {
    if (!weight->defined()) continue;
    require_plain("bce_with_logits", *weight);
    if (broadcast_shapes("bce_with_logits", weight->shape(), x.shape()) == x.shape()) continue;
    throw bad_input("[bce_with_logits] weights {} for x {}", weight->shape().to_string(), x.shape().to_string());
  }
  const Tensor logits = in_f32(x), t = in_f32(target);
  const Tensor miss = log_one_plus_exp(neg(logits));
  Tensor losses = neg(t - 1) * logits;
  if (options.pos_weight.defined()) {
    losses = losses + (t * (in_f32(options.pos_weight) - 1) + 1) * miss;
  } else {
    losses = losses + miss;
  }
  if (options.weight.defined()) losses = losses * in_f32(options.weight);
  return reduced(losses, x, options.reduce);
}

Tensor cross_entropy_loss(const Tensor& x, const Tensor& target, const CrossEntropy& o) {
  require_dtype("cross_entropy", x, kReal);
  require_plain("cross_entropy", target);
  if (is_floating(target.dtype())) return cross_entropy_of_probabilities(x, target, o);
  require_index_dtype("cross_entropy", target);
  if (x.shape().rank() < 2 || !(target.shape() == without_classes(x)) || x.shape()[1] == 0) {
    throw bad_input("[cross_entropy] targets {} for x {}", target.shape().to_string(), x.shape().to_string());
  }
  require_smoothing(o);
  const Tensor logarithms = log_softmax(in_f32(class_rows(x)));  // [R, V]
  const int64_t rows = logarithms.shape()[0], classes = logarithms.shape()[1];
  const IndexUse use{"cross_entropy", 1};
  const Tensor labels = reshape(target, Shape{rows, 1});
  const Tensor counted = counted_labels(labels, o.ignore_index), zero = weak(logarithms, 0);  // [R, 1], ()
  Tensor weights, shares = cast(counted, DType::f32);  // of classes [V]; of rows [R, 1]
  if (o.weight.defined()) {
    if (!(o.weight.shape() == Shape{classes})) {
      throw bad_input("[cross_entropy] weights {} for x {}", o.weight.shape().to_string(), x.shape().to_string());
    }
    weights = in_f32(o.weight);
    const Tensor own = gather(weights, label_positions(reshape(target, Shape{rows}), classes, use, o.ignore_index));
    shares = where(counted, reshape(own, Shape{rows, 1}), zero);
  }
  Tensor losses = neg(take_labels(logarithms, labels, use, o.ignore_index)) * shares;
  if (o.label_smoothing > 0) {
    const Tensor all = neg(sum(weights.defined() ? logarithms * weights : logarithms, -1, kKeepDims));
    losses = losses * (1 - o.label_smoothing) + all * (o.label_smoothing / static_cast<double>(classes));
  }
  losses = where(counted, losses, zero);  // an ignored row has no gradient, whatever follows
  if (o.reduce == Reduce::kNone) return cast(reshape(losses, target.shape()), for_sum(x).dtype());
  const Tensor total = sum(losses, kAllAxes);
  return cast(o.reduce == Reduce::kSum ? total : total / sum(shares, kAllAxes), for_sum(x).dtype());
}

BCEWithLogitsLoss::BCEWithLogitsLoss(const BceWithLogits& options) : options_(options) {
  add_buffer("weight", options_.weight, options.weight);
  add_buffer("pos_weight", options_.pos_weight, options.pos_weight);
}

CrossEntropyLoss::CrossEntropyLoss(const CrossEntropy& options) : options_(options) {
  add_buffer("weight", options_.weight, options.weight);
}

}  // namespace gabbro::nn
