// Dense matrix product. The products of f16 and bf16 are summed in f32, and small integers multiplied in i32.
#include <numeric>

#include "src/ops/autocast.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

// The last two axes exchanged.
Tensor transposed(const Tensor& x) {
  std::vector<int> axes(static_cast<size_t>(x.shape().rank()));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[axes.size() - 2], axes.back());
  return permute(x, axes);
}

Shape without_axis(const Shape& shape, int axis) {
  std::vector<int64_t> lengths(shape.lengths().begin(), shape.lengths().end());
  lengths.erase(lengths.begin() + axis);
  return Shape(lengths);
}

}  // namespace

const Op kMatmul = {
    .name = "matmul",
    .infer =
        [](const Args& a) {
          const Shape& x = a[0].shape();
          std::vector<int64_t> lengths(x.lengths().begin(), x.lengths().end());
          lengths.back() = a[1].shape()[a[1].shape().rank() - 1];
          return result(Shape(lengths), a[0].dtype());
        },
    .compose =
        [](const Args& a) {
          if (!is_half(a[0].dtype())) return std::vector<Tensor>();
          const auto wide = [&](size_t i) { return cast(a[i], DType::f32); };
          return std::vector{cast(record(kMatmul, {wide(0), wide(1)}), a[0].dtype())};
        },
    .gradient = [](const GradientArgs& a) -> Gradients {
      const Tensor& dy = a.gradients[0];
      return {matmul(dy, transposed(a[1])), matmul(transposed(a[0]), dy)};
    },
};

Tensor matmul(const Tensor& a, const Tensor& b) {
  const auto [x, y] = promoted("matmul", for_product(a), for_product(b));
  const DType dtype = x.dtype();
  if (dtype == DType::boolean) require_dtype("matmul", x, {DType::f32, DType::i32});
  const int ra = a.shape().rank(), rb = b.shape().rank();
  const int64_t inner = ra == 0 || rb == 0 ? -1 : b.shape()[rb == 1 ? 0 : rb - 2];
  if (inner < 0 || a.shape()[ra - 1] != inner) {
    throw bad_input("[matmul] shapes {} and {} do not fit", a.shape().to_string(), b.shape().to_string());
  }
  // A vector is a row on the left and a column on the right; that axis goes away again.
  if (ra == 1)
    return reshape(matmul(reshape(x, Shape{1, inner}), y), rb == 1 ? Shape{} : without_axis(b.shape(), rb - 2));
  if (rb == 1) return reshape(matmul(x, reshape(y, Shape{inner, 1})), without_axis(a.shape(), ra - 1));
  if (rb == 2 && ra > 2) {  // one large product, and in its gradient one sum
    std::vector<int64_t> lengths(a.shape().lengths().begin(), a.shape().lengths().end());
    const int64_t rows = Shape(a.shape().lengths().first(static_cast<size_t>(ra - 1))).elements();
    lengths.back() = b.shape()[1];
    return reshape(matmul(reshape(x, Shape{rows, inner}), y), Shape(lengths));
  }
  const Shape batch = broadcast_shapes("matmul", Shape(a.shape().lengths().first(static_cast<size_t>(ra - 2))),
                                       Shape(b.shape().lengths().first(static_cast<size_t>(rb - 2))));
  const DType computed = is_floating(dtype) ? dtype : as_computed(dtype);
  const auto widen = [&](const Tensor& factor) {
    const int rank = factor.shape().rank();
    std::vector<int64_t> lengths(batch.lengths().begin(), batch.lengths().end());
    lengths.push_back(factor.shape()[rank - 2]);
    lengths.push_back(factor.shape()[rank - 1]);
    const Shape shape(lengths);
    const Tensor wide = cast(factor, computed);
    return wide.shape() == shape ? wide : broadcast_to(wide, shape);
  };
  return cast(record(kMatmul, {widen(x), widen(y)}), dtype);
}

}  // namespace gabbro
