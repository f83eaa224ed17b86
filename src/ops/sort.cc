// Sorting along an axis: stable, with a NaN after all numbers, as NumPy does; so NaNs come first where the largest do.
#include "src/ops/gradient_rules.h"
#include "src/ops/last_axis.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

std::vector<TensorSpec> values_and_indices(const Tensor& x, int64_t count) {
  const Shape shape = with_last(x.shape(), count);
  return {TensorSpec{.shape = shape, .dtype = x.dtype()}, TensorSpec{.shape = shape, .dtype = DType::i32}};
}

int checked_axis(const char* op, const Tensor& x, int64_t axis) {
  require_plain(op, x);
  if (x.shape().rank() == 0) throw bad_input("[{}] a scalar has no axis", op);
  return x.shape().axis(op, axis);
}

// Each value's gradient goes to the place that it came from.
Gradients of_sort(const GradientArgs& a) {
  if (!a.gradients[0].defined()) return {Tensor()};
  return {scatter_add(filled_like(a[0], a[0].shape(), 0), a.outputs[1], a.gradients[0])};
}

// bool and small integers are sorted as i32.
Tensor sortable(const Tensor& x) { return cast(x, is_floating(x.dtype()) ? x.dtype() : as_computed(x.dtype())); }

std::vector<Tensor> sorted(const char* op, const Tensor& x, int64_t axis, bool descending) {
  const int index = checked_axis(op, x, axis);
  std::vector<Tensor> results =
      record_all(kSort, {axis_to_last(sortable(x), index)}, {{"descending", int64_t{descending}}});
  for (Tensor& result : results) result = axis_from_last(result, index);
  return results;
}

}  // namespace

// Over the last axis: values, and their places (i32).
const Op kSort = {
    .name = "sort",
    .infer = [](const Args& a) { return values_and_indices(a[0], a[0].shape()[a[0].shape().rank() - 1]); },
    .gradient = of_sort,
};

// The first k of what `sort` gives.
const Op kTopk = {
    .name = "topk",
    .infer = [](const Args& a) { return values_and_indices(a[0], a.attributes.integer("k")); },
    .compose =
        [](const Args& a) {
          std::vector<Tensor> results = record_all(kSort, {a[0]}, {{"descending", a.attributes.integer("descending")}});
          for (Tensor& result : results) result = slice(result, -1, 0, a.attributes.integer("k"));
          return results;
        },
    .gradient = of_sort,
};

Tensor sort(const Tensor& x, int64_t axis, bool descending) {
  return cast(sorted("sort", x, axis, descending)[0], x.dtype());
}
Tensor argsort(const Tensor& x, int64_t axis, bool descending) { return sorted("argsort", x, axis, descending)[1]; }

TopK topk(const Tensor& x, int64_t k, int64_t axis, bool largest) {
  const int index = checked_axis("topk", x, axis);
  if (k < 0 || k > x.shape()[index]) {
    throw bad_input("[topk] {} elements are not along axis {} of shape {}", k, axis, x.shape().to_string());
  }
  const std::vector<Tensor> results =
      record_all(kTopk, {axis_to_last(sortable(x), index)}, {{"k", k}, {"descending", int64_t{largest}}});
  return {.values = cast(axis_from_last(results[0], index), x.dtype()), .indices = axis_from_last(results[1], index)};
}

}  // namespace gabbro
