// Elements by index along an axis, sums of elements and rows by index, and triangles.
#include "src/base/input_errors.h"
#include "src/ops/gradient_rules.h"
#include "src/ops/index_rules.h"
#include "src/ops/last_axis.h"
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
  require_plain(op, indices);
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
Tensor summed(const Tensor& x) { return cast(x, is_half(x.dtype()) ? DType::f32 : as_computed(x.dtype())); }

int64_t last_of(const Tensor& x) { return x.shape()[x.shape().rank() - 1]; }

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
          const Tensor column = positions_of(a[1], columns, a.attributes);
          const Tensor hit = equal(reshape(column, Shape{rows, picks, 1}), iota(x.device(), columns, DType::i32));
          const Tensor taken =
              sum(where(hit, reshape(x, Shape{rows, 1, columns}), number_like(x, 0)), -1, kKeepDims);  // [rows, K, 1]
          return std::vector{cast(reshape(taken, a[1].shape()), a[0].dtype())};
        },
    .gradient = [](const GradientArgs& a) -> Gradients {
      const Tensor zeros = filled_like(a[0], a[0].shape(), 0);
      return {scatter_add_last(zeros, a[1], a.gradients[0], a.attributes), Tensor()};
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
          const Tensor place = positions_of(a[1], columns, a.attributes);
          const Tensor hit = equal(reshape(place, Shape{rows, 1, picks}), column);
          const Tensor added =
              sum(where(hit, reshape(a[2], Shape{rows, 1, picks}), number_like(x, 0)), -1, kKeepDims);  // [rows, C, 1]
          return std::vector{x + reshape(cast(added, x.dtype()), x.shape())};
        },
    .gradient = [](const GradientArgs& a) -> Gradients {
      const Tensor& dy = a.gradients[0];
      return {dy, Tensor(), take_along_last(dy, a[1], a.attributes)};
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
          const Tensor hit = equal(positions_of(a[1], rows, a.attributes), row);
          const Tensor added = sum(where(hit, values, number_like(x, 0)), -1, kKeepDims);  // [R, C, 1]
          return std::vector{x + reshape(cast(added, x.dtype()), x.shape())};
        },
    .gradient = [](const GradientArgs& a) -> Gradients {
      const Tensor& dy = a.gradients[0];
      return {dy, Tensor(), gather_rows(dy, a[1], a.attributes)};
    },
};

Tensor take_along_axis(const Tensor& x, const Tensor& indices, int64_t axis) {
  require_plain("take_along_axis", x);
  const int index = indexed_axis("take_along_axis", x, indices, axis);
  if (x.shape()[index] == 0 && indices.shape().elements() > 0)
    throw bad_index("[take_along_axis] x {} has nothing along axis {}", x.shape().to_string(), axis);
  const IndexUse use{"take_along_axis", index};
  const Tensor places = readable_indices(indices, x.shape()[index], use);
  return axis_from_last(take_along_last(axis_to_last(x, index), axis_to_last(places, index), index_attributes(use)),
                        index);
}

Tensor take_along_last(const Tensor& x, const Tensor& indices, const Attributes& attributes) {
  return record(kTakeAlong, {x, indices}, attributes);
}

Tensor scatter_add(const Tensor& x, const Tensor& indices, const Tensor& values, int64_t axis) {
  require_summed("scatter_add", x, values);
  const int index = indexed_axis("scatter_add", x, indices, axis);
  if (!(values.shape() == indices.shape())) {
    throw bad_input("[scatter_add] values {} for indices {}", values.shape().to_string(), indices.shape().to_string());
  }
  const IndexUse use{"scatter_add", index};
  const Tensor places = readable_indices(indices, x.shape()[index], use);
  const Tensor y = scatter_add_last(axis_to_last(x, index), axis_to_last(places, index), axis_to_last(values, index),
                                    index_attributes(use));
  return axis_from_last(y, index);
}

Tensor scatter_add_last(const Tensor& x, const Tensor& indices, const Tensor& values, const Attributes& attributes) {
  return cast(record(kScatterAdd, {summed(x), indices, summed(values)}, attributes), x.dtype());
}

Tensor index_add(const Tensor& x, const Tensor& indices, const Tensor& values) {
  require_summed("index_add", x, values);
  require_rank("index_add", indices, 1);
  if (x.shape().rank() == 0 || !alike_but(x.shape(), values.shape(), 0) || values.shape()[0] != indices.shape()[0]) {
    throw bad_input("[index_add] {} indices and values {} do not fit x {}", indices.shape()[0],
                    values.shape().to_string(), x.shape().to_string());
  }
  const IndexUse use{"index_add"};
  return add_rows(x, readable_indices(indices, x.shape()[0], use), values, index_attributes(use));
}

Tensor add_rows(const Tensor& x, const Tensor& indices, const Tensor& values, const Attributes& attributes) {
  return cast(record(kIndexAdd, {summed(x), indices, summed(values)}, attributes), x.dtype());
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
