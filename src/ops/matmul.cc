// Dense matrix product.
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {

const Op kMatmul = {
    .name = "matmul",
    .infer =
        [](const Args& a) {
          const Shape& x = a[0].shape();
          std::vector<int64_t> lengths(x.lengths().begin(), x.lengths().end());
          lengths.back() = a[1].shape()[a[1].shape().rank() - 1];
          return result(Shape(lengths), DType::f32);
        },
};

Tensor matmul(const Tensor& a, const Tensor& b) {
  require_dtype("matmul", a, {DType::f32});
  require_dtype("matmul", b, {DType::f32});
  const int ra = a.shape().rank();
  const int rb = b.shape().rank();
  if (ra < 2 || rb < 2 || a.shape()[ra - 1] != b.shape()[rb - 2]) {
    throw bad_input("[matmul] shapes {} and {} do not fit", a.shape().to_string(), b.shape().to_string());
  }
  const Shape batch = broadcast_shapes("matmul", Shape(a.shape().lengths().first(static_cast<size_t>(ra - 2))),
                                       Shape(b.shape().lengths().first(static_cast<size_t>(rb - 2))));
  const auto widen = [&](const Tensor& x) {
    const int rank = x.shape().rank();
    std::vector<int64_t> lengths(batch.lengths().begin(), batch.lengths().end());
    lengths.push_back(x.shape()[rank - 2]);
    lengths.push_back(x.shape()[rank - 1]);
    const Shape shape(lengths);
    return x.shape() == shape ? x : broadcast_to(x, shape);
  };
  return record(kMatmul, {widen(a), widen(b)});
}

}  // namespace gabbro
