// Products with weights: the two ops, with dequantize, that read block formats.
#include "src/ops/autocast.h"
#include "src/ops/gradient_rules.h"
#include "src/ops/index_rules.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

// [..., C] as [T, C].
Tensor as_matrix(const Tensor& x) {
  const int last = x.shape().rank() - 1;
  int64_t rows = 1;  // counted, as C may be 0
  for (int axis = 0; axis < last; ++axis) rows *= x.shape()[axis];
  return reshape(x, Shape{rows, x.shape()[last]});
}

}  // namespace

// y = x · Wᵀ (+ bias): x [..., K], W [N, K] of any float or block format, y [..., N].
const Op kLinear = {
    .name = "linear",
    .infer = [](const Args& a) { return result(with_last(a[0].shape(), a[1].shape()[0]), a[0].dtype()); },
    .compose =
        [](const Args& a) {
          if (is_half(a[0].dtype())) {  // kernels take any weights, and activations in f32
            std::vector<Tensor> inputs{cast(a[0], DType::f32), a[1]};
            if (a.size() == 3) inputs.push_back(cast(a[2], DType::f32));
            return std::vector{cast(record(kLinear, inputs), a[0].dtype())};
          }
          const Tensor weight = permute(dequantize(a[1]), {1, 0});  // [K, N]
          const Tensor x = a[0].shape().rank() == 1 ? reshape(a[0], Shape{1, a[0].shape()[0]}) : a[0];
          Tensor y = matmul(x, weight);
          if (a.size() == 3) y = y + a[2];
          return std::vector{a[0].shape().rank() == 1 ? reshape(y, Shape{a[1].shape()[0]}) : y};
        },
    // dx = dy · W, dW = dyᵀ · x, of all tokens at once.
    .gradient = [](const GradientArgs& a) -> Gradients {
      const Tensor dy = as_matrix(a.gradients[0]), x = as_matrix(a[0]);  // [T, N], [T, K]
      const Tensor weight = is_half(x.dtype()) ? a[1] : dequantize(a[1]);
      Gradients gradients{reshape(matmul(dy, weight), a[0].shape()), Tensor()};
      if (!is_quantized(a[1].dtype())) gradients[1] = cast(matmul(permute(dy, {1, 0}), x), a[1].dtype());
      if (a.size() == 3) gradients.push_back(sum_to(dy, a[2].shape()));
      return gradients;
    },
};

// Rows of a table: table [V, C] of any float or block format, ids i32 [T], y [T, C].
const Op kEmbedding = {
    .name = "embedding",
    .infer =
        [](const Args& a) {
          return result(Shape{a[1].shape()[0], a[0].shape()[1]}, DType::f32);
        },
    .compose =
        [](const Args& a) { return std::vector{gather_rows(dequantize(a[0]), a[1], index_attributes({"embedding"}))}; },
};

Tensor linear(const Tensor& input, const Tensor& own_weight, const Tensor& bias) {
  const Tensor x = for_product(input), weight = for_product(own_weight);
  require_dtype("linear", x, kFloating);
  require_rank("linear", weight, 2);
  const int rank = x.shape().rank();
  if (rank == 0 || x.shape()[rank - 1] != weight.shape()[1]) {
    throw bad_input("[linear] input {} does not fit weight {}", x.shape().to_string(), weight.shape().to_string());
  }
  if (bias.defined()) require_dtype("linear", bias, {DType::f32, DType::f16, DType::bf16, x.dtype()});
  if (bias.defined() && !(bias.shape() == Shape{weight.shape()[0]})) {
    throw bad_input("[linear] bias {} does not fit weight {}", bias.shape().to_string(), weight.shape().to_string());
  }
  if (x.dtype() == DType::f64) {  // kernels compute in f32
    const Tensor plain = is_quantized(weight.dtype()) || weight.spec().packed ? dequantize(weight) : weight;
    const Tensor y = matmul(x, permute(plain, {1, 0}));
    return bias.defined() ? y + bias : y;
  }
  // f16 by f16 and bf16 by bf16 stay in their dtype: BLAS libraries multiply them so.
  const bool in_half = is_half(x.dtype()) && weight.dtype() == x.dtype() && !weight.spec().packed;
  const DType computed = in_half ? x.dtype() : DType::f32;
  std::vector<Tensor> inputs{cast(x, computed), weight};
  if (bias.defined()) inputs.push_back(cast(bias, computed));
  return cast(record(kLinear, inputs), x.dtype());
}

Tensor embedding(const Tensor& weight, const Tensor& ids) {
  require_rank("embedding", weight, 2);
  if (weight.shape()[0] == 0) throw bad_input("[embedding] the table {} has no rows", weight.shape().to_string());
  require_index_dtype("embedding", ids);
  if (ids.shape().rank() == 1 && ids.dtype() == DType::i32) return record(kEmbedding, {weight, ids});
  std::vector<int64_t> lengths = lengths_of(ids);
  lengths.push_back(weight.shape()[1]);
  const Tensor flat = reshape(ids, Shape{ids.shape().elements()});
  const Tensor rows = record(kEmbedding, {weight, readable_indices(flat, weight.shape()[0], {"embedding"})});
  return reshape(rows, Shape(lengths));
}

}  // namespace gabbro
