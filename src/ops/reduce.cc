// Reductions over the last axis, and sums along an axis. f16 and bf16 are reduced in f32.
#include <cmath>

#include "src/ops/axis.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

Op reduction(const char* name) {
  return {.name = name, .infer = [](const Args& a) { return result(with_last(a[0].shape(), 1), a[0].dtype()); }};
}

Op search(const char* name) {
  return {.name = name, .infer = [](const Args& a) { return result(with_last(a[0].shape(), 1), DType::i32); }};
}

Tensor checked(const char* op, const Tensor& x, bool integers = true) {
  if (integers) {
    require_dtype(op, x, {DType::f32, DType::i32, DType::f16, DType::bf16});
  } else {
    require_dtype(op, x, {DType::f32, DType::f16, DType::bf16});
  }
  if (x.shape().rank() == 0) throw bad_input("[{}] a scalar has no axis to reduce", op);
  return is_half(x.dtype()) ? cast(x, DType::f32) : x;
}

Tensor reduce(const Op& op, const Tensor& x) {
  const Tensor y = record(op, {checked(op.name, x)});
  return is_half(x.dtype()) ? cast(y, x.dtype()) : y;
}

}  // namespace

const Op kSum = reduction("sum");
const Op kMax = reduction("max");
const Op kMin = reduction("min");
const Op kProd = reduction("prod");
const Op kArgmax = search("argmax");
const Op kArgmin = search("argmin");

// The sum of the elements up to each: those with a larger index count as 0.
const Op kCumsum = {
    .name = "cumsum",
    .infer = [](const Args& a) { return result(a[0].shape(), a[0].dtype()); },
    .compose =
        [](const Args& a) {
          const Tensor& x = a[0];  // [..., C]
          const int64_t columns = x.shape()[x.shape().rank() - 1];
          const Tensor flat = reshape(x, Shape{x.shape().elements() / columns, 1, columns});
          const Tensor index = iota(x.device(), columns, DType::i32);
          const Tensor before = less_equal(index, reshape(index, Shape{columns, 1}));  // [C, C]
          return std::vector{reshape(sum(where(before, flat, scalar(x.device(), 0, x.dtype()))), x.shape())};
        },
};

Tensor sum(const Tensor& x) { return reduce(kSum, x); }
Tensor max(const Tensor& x) { return reduce(kMax, x); }
Tensor min(const Tensor& x) { return reduce(kMin, x); }
Tensor prod(const Tensor& x) { return reduce(kProd, x); }
Tensor argmax(const Tensor& x) { return record(kArgmax, {checked("argmax", x)}); }
Tensor argmin(const Tensor& x) { return record(kArgmin, {checked("argmin", x)}); }

Tensor mean(const Tensor& x) {
  const Tensor total = record(kSum, {checked("mean", x, false)});
  const Tensor y = total * scalar(x.device(), 1.0 / static_cast<double>(x.shape()[x.shape().rank() - 1]));
  return is_half(x.dtype()) ? cast(y, x.dtype()) : y;
}

Tensor var(const Tensor& x, double correction) {
  checked("var", x, false);
  const Shape shape = with_last(x.shape(), 1);
  const int64_t rows = shape.elements(), columns = x.shape()[x.shape().rank() - 1];
  const Tensor squares = record_all(kMoments, {reshape(x, Shape{1, rows, columns})})[1];
  const double count = static_cast<double>(columns), rest = count - correction;
  const Tensor y = reshape(squares, shape) * scalar(x.device(), rest > 0 ? count / rest : NAN);
  return is_half(x.dtype()) ? cast(y, x.dtype()) : y;
}

Tensor cumsum(const Tensor& x, int64_t axis) {
  const Tensor plain = checked("cumsum", x);
  const int index = x.shape().axis("cumsum", axis);
  const Tensor y = axis_from_last(record(kCumsum, {axis_to_last(plain, index)}), index);
  return is_half(x.dtype()) ? cast(y, x.dtype()) : y;
}

}  // namespace gabbro
