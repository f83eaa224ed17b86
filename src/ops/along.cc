// Elements by index along an axis, sums of elements and rows by index, and triangles.
#include "src/ops/axis.h"
#include "src/ops/gradient_rules.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

// Equal lengths of all axes but one.
bool alike_but(const Shape& a, const Shape& b, int axis) {
  bool alike = a.rank() == b.rank();
  for (int i = 0; alike && i < a.rank(); ++i) alike = i == axis || a[i] == b[i];
  return alike;
}

// The axis that the indices run along.
int indexed_axis(const char* op, const Tensor& x, const Tensor& indices, int64_t axis) {
  require_dtype(op, indices, {DType::i32});
  const int index = x.shape().axis(op, axis);
  if (!alike_but(x.shape(), indices.shape(), index)) {
    throw bad_input("[{}] indices {} do not fit x {} along axis {}", op, indices.shape().to_string(),
                    x.shape().to_string(), axis);
  }
  return index;
}

void require_summed(const char* op, const Tensor& x, const Tensor& values) {
  require_plain(op, x);
  require_plain(op, values);
  if (values.dtype() != x.dtype()) {
    throw bad_input("[{}] values are {} {} and x {} {}", op, dtype_name(values.dtype()), values.shape().to_string(),
                    dtype_name(x.dtype()), x.shape().to_string());
  }
}

// Halves are added in f32, small integers and bool in i32.
Tensor summed(const Tensor& x) { return cast(x, is_half(x.dtype()) ? DType::f32 : as_sum(x.dtype())); }

int64_t last_of(const Tensor& x) { return x.shape()[x.shape().rank() - 1]; }

Tensor clamped(const Tensor& indices, int64_t count) {
  return count == 0 ? indices : clamp(indices, 0, static_cast<double>(count - 1));
}

// x where the index, which broadcasts to it, is one of `count`; 0 where it is outside.
Tensor where_inside(const Tensor& indices, int64_t count, const Tensor& x) {
  const Tensor zero_index = scalar(x.device(), 0, DType::i32);
  const Tensor end = scalar(x.device(), static_cast<double>(count), DType::i32);
  return where(logical_and(greater_equal(indices, zero_index), less(indices, end)), x, number_like(x, 0));
}

std::vector<TensorSpec> like_first(const Args& a) { return result(a[0].shape(), a[0].dtype()); }

// Column index minus row index of a matrix, i32 [M, N].
Tensor diagonals(const Tensor& x) {
  const int64_t rows = x.shape()[x.shape().rank() - 2], columns = last_of(x);
  return iota(x.device(), columns, DType::i32) - reshape(iota(x.device(), rows, DType::i32), Shape{rows, 1});
}

void require_matrix(const char* op, const Tensor& x) {
  require_plain(op, x);
  if (x.shape().rank() < 2) throw bad_input("[{}] shape {} has no two axes", op, x.shape().to_string());
}

}  // namespace

// x [..., C], indices [..., K] to [..., K].
const Op kTakeAlong = {
    .name = "take_along",
    .infer = [](const Args& a) { return result(a[1].shape(), a[0].dtype()); },
    // The sum of the elements of x that are the one at the index, and zeros.
    .compose =
        [](const Args& a) {
          const Tensor x = summed(a[0]);
          const int64_t columns = last_of(x), picks = last_of(a[1]),
                        rows = columns == 0 ? 0 : x.shape().elements() / columns;
          const Tensor inside = clamp(a[1], 0, static_cast<double>(columns - 1));
          const Tensor hit = equal(reshape(inside, Shape{rows, picks, 1}), iota(x.device(), columns, DType::i32));
          const Tensor taken =
              sum(where(hit, reshape(x, Shape{rows, 1, columns}), number_like(x, 0)), -1, kKeepDims);  // [rows, K, 1]
          return std::vector{cast(reshape(taken, a[1].shape()), a[0].dtype())};
        },
    .gradient = [](const GradientArgs& a) -> Gradients {
      const Tensor zeros = filled_like(a[0], a[0].shape(), 0);
      return {scatter_add(zeros, clamped(a[1], last_of(a[0])), a.gradients[0]), Tensor()};
    },
};

// x [..., C], indices [..., K], values [..., K] to [..., C].
const Op kScatterAdd = {
    .name = "scatter_add",
    .infer = like_first,
    .compose =
        [](const Args& a) {
          const Tensor& x = a[0];
          const int64_t columns = last_of(x), picks = last_of(a[1]), rows = x.shape().elements() / columns;
          const Tensor column = reshape(iota(x.device(), columns, DType::i32), Shape{columns, 1});
          const Tensor hit = equal(reshape(a[1], Shape{rows, 1, picks}), column);
          const Tensor added =
              sum(where(hit, reshape(a[2], Shape{rows, 1, picks}), number_like(x, 0)), -1, kKeepDims);  // [rows, C, 1]
          return std::vector{x + reshape(added, x.shape())};
        },
    .gradient = [](const GradientArgs& a) -> Gradients {
      const Tensor& dy = a.gradients[0];
      if (last_of(dy) == 0) return {dy, Tensor(), Tensor()};
      return {dy, Tensor(), where_inside(a[1], last_of(dy), take_along_axis(dy, a[1]))};
    },
};

// x [R, C...], indices [K], values [K, C...] to [R, C...].
const Op kIndexAdd = {
    .name = "index_add",
    .infer = like_first,
    .compose =
        [](const Args& a) {
          const Tensor& x = a[0];
          const int64_t rows = x.shape()[0], picks = a[1].shape()[0], columns = x.shape().elements() / rows;
          const Tensor row = reshape(iota(x.device(), rows, DType::i32), Shape{rows, 1, 1});
          const Tensor values = permute(reshape(a[2], Shape{picks, columns}), {1, 0});  // [C, K]
          return std::vector{
              x + reshape(sum(where(equal(a[1], row), values, number_like(x, 0)), -1, kKeepDims), x.shape())};
        },
    .gradient = [](const GradientArgs& a) -> Gradients {
      const Tensor& dy = a.gradients[0];
      if (dy.shape()[0] == 0) return {dy, Tensor(), Tensor()};
      std::vector<int64_t> lengths(static_cast<size_t>(dy.shape().rank()), 1);
      lengths[0] = a[1].shape()[0];
      return {dy, Tensor(), where_inside(reshape(a[1], Shape(lengths)), dy.shape()[0], gather(dy, a[1]))};
    },
};

Tensor take_along_axis(const Tensor& x, const Tensor& indices, int64_t axis) {
  require_plain("take_along_axis", x);
  const int index = indexed_axis("take_along_axis", x, indices, axis);
  if (x.shape()[index] == 0 && indices.shape().elements() > 0)
    throw bad_input("[take_along_axis] x {} has nothing along axis {}", x.shape().to_string(), axis);
  return axis_from_last(record(kTakeAlong, {axis_to_last(x, index), axis_to_last(indices, index)}), index);
}

Tensor scatter_add(const Tensor& x, const Tensor& indices, const Tensor& values, int64_t axis) {
  require_summed("scatter_add", x, values);
  const int index = indexed_axis("scatter_add", x, indices, axis);
  if (!(values.shape() == indices.shape())) {
    throw bad_input("[scatter_add] values {} for indices {}", values.shape().to_string(), indices.shape().to_string());
  }
  const Tensor y = record(
      kScatterAdd, {axis_to_last(summed(x), index), axis_to_last(indices, index), axis_to_last(summed(values), index)});
  return cast(axis_from_last(y, index), x.dtype());
}

Tensor index_add(const Tensor& x, const Tensor& indices, const Tensor& values) {
  require_summed("index_add", x, values);
  require_dtype("index_add", indices, {DType::i32});
  require_rank("index_add", indices, 1);
  if (x.shape().rank() == 0 || !alike_but(x.shape(), values.shape(), 0) || values.shape()[0] != indices.shape()[0]) {
    throw bad_input("[index_add] {} indices and values {} do not fit x {}", indices.shape()[0],
                    values.shape().to_string(), x.shape().to_string());
  }
  return cast(record(kIndexAdd, {summed(x), indices, summed(values)}), x.dtype());
}

Tensor tril(const Tensor& x, int64_t diagonal) {
  require_matrix("tril", x);
  const double limit = static_cast<double>(diagonal);
  return where(less_equal(diagonals(x), scalar(x.device(), limit, DType::i32)), x, number_like(x, 0));
}

Tensor triu(const Tensor& x, int64_t diagonal) {
  require_matrix("triu", x);
  const double limit = static_cast<double>(diagonal);
  return where(greater_equal(diagonals(x), scalar(x.device(), limit, DType::i32)), x, number_like(x, 0));
}

}  // namespace gabbro
