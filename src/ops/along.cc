// Elements by index along an axis, sums of elements and rows by index, and triangles.
#include "src/ops/axis.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

Tensor zero(const Tensor& like) { return cast(scalar(like.device(), 0), like.dtype()); }

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
  require_dtype(op, x, {DType::f32, DType::i32, DType::f16, DType::bf16});
  require_plain(op, values);
  if (values.dtype() != x.dtype()) {
    throw bad_input("[{}] values are {} {} and x {} {}", op, dtype_name(values.dtype()), values.shape().to_string(),
                    dtype_name(x.dtype()), x.shape().to_string());
  }
}

Tensor as_f32_if_half(const Tensor& x) { return is_half(x.dtype()) ? cast(x, DType::f32) : x; }

int64_t last_of(const Tensor& x) { return x.shape()[x.shape().rank() - 1]; }

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
          const DType number = a[0].dtype() == DType::boolean ? DType::i32 : a[0].dtype();
          const Tensor x = as_f32_if_half(cast(a[0], number));
          const int64_t columns = last_of(x), picks = last_of(a[1]),
                        rows = columns == 0 ? 0 : x.shape().elements() / columns;
          const Tensor inside = clamp(a[1], 0, static_cast<double>(columns - 1));
          const Tensor hit = equal(reshape(inside, Shape{rows, picks, 1}), iota(x.device(), columns, DType::i32));
          const Tensor taken = sum(where(hit, reshape(x, Shape{rows, 1, columns}), zero(x)));  // [rows, K, 1]
          return std::vector{cast(reshape(taken, a[1].shape()), a[0].dtype())};
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
          const Tensor added = sum(where(hit, reshape(a[2], Shape{rows, 1, picks}), zero(x)));  // [rows, C, 1]
          return std::vector{x + reshape(added, x.shape())};
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
          return std::vector{x + reshape(sum(where(equal(a[1], row), values, zero(x))), x.shape())};
        },
};

Tensor take_along_axis(const Tensor& x, const Tensor& indices, int64_t axis) {
  require_dtype("take_along_axis", x, {DType::f32, DType::i32, DType::f16, DType::bf16, DType::boolean});
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
  const Tensor y = record(kScatterAdd, {axis_to_last(as_f32_if_half(x), index), axis_to_last(indices, index),
                                        axis_to_last(as_f32_if_half(values), index)});
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
  return cast(record(kIndexAdd, {as_f32_if_half(x), indices, as_f32_if_half(values)}), x.dtype());
}

Tensor tril(const Tensor& x, int64_t diagonal) {
  require_matrix("tril", x);
  const double limit = static_cast<double>(diagonal);
  return where(less_equal(diagonals(x), scalar(x.device(), limit, DType::i32)), x, zero(x));
}

Tensor triu(const Tensor& x, int64_t diagonal) {
  require_matrix("triu", x);
  const double limit = static_cast<double>(diagonal);
  return where(greater_equal(diagonals(x), scalar(x.device(), limit, DType::i32)), x, zero(x));
}

}  // namespace gabbro
