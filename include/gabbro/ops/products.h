// Products of tensors: matrices, sums of products over named axes, attention. All meet in one dtype (promotion.h); f16
// and bf16 are multiplied in f32. All but matmul are made of permutes, reshapes, matmuls and reductions.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "gabbro/tensor/tensor.h"

#pragma GCC visibility push(default)
namespace gabbro {

// [..., M, K] × [..., K, N] -> [..., M, N], with batch axes that broadcast; a vector is a row on the left and a column
// on the right, as in NumPy. Takes any dtype of numbers.
Tensor matmul(const Tensor& a, const Tensor& b);

// Einstein's notation as numpy.einsum has it: "bhqd,bhkd->bhqk", letters of either case, "..." for axes that broadcast,
// a letter twice in a term for its diagonal, and without "->" the letters that are there once, in alphabetical order.
// Of several operands, the two whose product makes the elements grow the least are multiplied first.
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);

// Sums over a's last and b's first axes, as many as `count`; or over these axes of a and of b, in pairs.
Tensor tensordot(const Tensor& a, const Tensor& b, int64_t count = 2);
Tensor tensordot(const Tensor& a, const Tensor& b, const std::vector<int64_t>& axes_of_a,
                 const std::vector<int64_t>& axes_of_b);
Tensor outer(const Tensor& a, const Tensor& b);                      // [M], [N] -> [M, N]; others are made flat
Tensor dot(const Tensor& a, const Tensor& b);                        // over a's last and b's last but one axis
Tensor vecdot(const Tensor& a, const Tensor& b, int64_t axis = -1);  // over an axis of both; the others broadcast
// y[..., o] = x1[..., i] · weight[o, i, j] · x2[..., j] + bias[o], as torch.nn.functional.
Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias = {});

struct DotProductAttention {
  Tensor mask{};        // broadcasts to [..., L, S]: bool, true where a query may look, or added to the scores
  bool causal = false;  // query l sees keys 0 .. l
  std::optional<double> scale{};  // none: 1 / sqrt(D)
  bool whole = false;             // f32 is one op too, as f16 and bf16 are: where no gradient is wanted
};
// softmax(q·kᵀ · scale + mask)·v (Vaswani et al. 2017), as torch.nn.functional's scaled_dot_product_attention: q [...,
// H, L, D], k [..., G, S, D], v [..., G, S, E] -> [..., H, L, E]; H is a multiple of G, and head h reads head h /
// (H/G). A query that sees nothing gives zeros. With f16 and bf16, and with `whole`, the scores are not stored if the
// device has a kernel for it.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const DotProductAttention& options = {});

}  // namespace gabbro
#pragma GCC visibility pop
