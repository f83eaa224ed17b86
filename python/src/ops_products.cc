// Products of tensors.
#include "python/src/checked.h"
#include "python/src/ops.h"

namespace gabbro::python {
namespace {

Tensor contracted(const Tensor& a, const Tensor& b,
                  const std::variant<int64_t, std::pair<std::vector<int64_t>, std::vector<int64_t>>>& axes) {
  if (const auto* count = std::get_if<int64_t>(&axes)) return tensordot(a, b, *count);
  const auto& [of_a, of_b] = std::get<1>(axes);
  return tensordot(a, b, of_a, of_b);
}

Tensor attended(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask, bool causal,
                std::optional<double> scale) {
  return scaled_dot_product_attention(query, key, value, {.mask = or_none(mask), .causal = causal, .scale = scale});
}

}  // namespace

void bind_products(nb::module_& m, TensorClass& tensor) {
  tensor.def("matmul", matmul, nb::arg("other"), "As `gabbro.matmul`.");
  m.def("matmul", matmul, nb::arg("a"), nb::arg("b"),
        R"(The matrix product of the last two axes; the axes before are broadcast.

Parameters
----------
a : Tensor
    [..., M, K], or [K]: a row.
b : Tensor
    [..., K, N], or [K]: a column.

Returns
-------
Tensor
    [..., M, N], without the axis of a row or column, in the dtype in which both meet; halves are summed in float32.

Raises
------
ValueError
    Where the shapes do not fit, for two tensors of bool, and for block formats.

>>> gb.matmul(gb.tensor([[1.0, 2.0]]), gb.tensor([[3.0], [4.0]]))
tensor([[11.]])
)");
  const auto batches = [&](const char* name, const char* doc) {
    m.def(
        name,
        [name](const Tensor& a, const Tensor& b) {
          if (a.shape().rank() != 3 || b.shape().rank() != 3 || a.shape()[0] != b.shape()[0])
            throw bad_input("[{}] batches of matrices [B, M, K] and [B, K, N] are wanted, not {} and {}", name,
                            a.shape().to_string(), b.shape().to_string());
          return matmul(a, b);
        },
        nb::arg("a"), nb::arg("b"), doc);
  };
  batches("bmm", R"(The matrix products of two batches, one by one; nothing is broadcast, as `matmul` does it.

Parameters
----------
a : Tensor
    [B, M, K]
b : Tensor
    [B, K, N]

Returns
-------
Tensor
    [B, M, N]

Raises
------
ValueError
    For other shapes, and as `matmul`.

>>> gb.bmm(gb.ones((3, 1, 2)), gb.ones((3, 2, 1))).flatten()
tensor([2., 2., 2.])
)");
  batches("batch_matmul", R"(Another name of `bmm`.

>>> gb.batch_matmul(gb.ones((3, 1, 2)), gb.ones((3, 2, 1))).shape
(3, 1, 1)
)");
  m.def(
      "einsum",
      [](const std::string& equation, const nb::args& operands) {
        return einsum(equation, tensors_argument("einsum", operands));
      },
      nb::sig("def einsum(equation: str, /, *operands: Tensor) -> Tensor"),
      R"(Einstein's notation, as numpy.einsum has it: sums of products over named axes.

Parameters
----------
equation : str
    A letter for each axis: ``"bhqd,bhkd->bhqk"``. ``...`` stands for axes that broadcast, a letter twice in a term for
    its diagonal. Without ``->`` the letters that are there once come out, in alphabetical order.
*operands : Tensor
    One for each term.

Returns
-------
Tensor
    In the dtype in which all meet (`result_type`).

Raises
------
ValueError
    Where the equation does not fit the operands' shapes.

>>> gb.einsum("ij,kj->ik", gb.tensor([[1.0, 2.0]]), gb.tensor([[3.0, 4.0]]))
tensor([[11.]])
)");
  m.def("tensordot", contracted, nb::arg("a"), nb::arg("b"), nb::kw_only(), nb::arg("axes") = 2,
        R"(Sums of products over axes of both.

Parameters
----------
a, b : Tensor
    Of any dtype but bool and block formats.
axes : int, or two sequences of int
    As many of the last axes of `a` and of the first of `b`; or these axes of `a` and of `b`, in pairs.

Returns
-------
Tensor
    The other axes of `a`, then the other axes of `b`; in the promoted dtype of both.

Raises
------
ValueError
    For axes that are not there, or whose lengths differ.

>>> gb.tensordot(gb.tensor([1.0, 2.0]), gb.tensor([3.0, 4.0]), axes=1)
tensor(11.)
)");
  m.def("vecdot", vecdot, nb::arg("a"), nb::arg("b"), nb::arg("axis") = -1,
        R"(Sums of products over an axis of both; the others are broadcast.

Raises
------
ValueError
    For an axis that is not there, and lengths that differ.

>>> gb.vecdot(gb.tensor([1.0, 2.0]), gb.tensor([3.0, 4.0]))
tensor(11.)
)");
  m.def("dot", dot, nb::arg("a"), nb::arg("b"),
        R"(Sums of products over the last axis of `a` and the last but one of `b` (or its only one), as numpy.dot.

Raises
------
ValueError
    Where the shapes do not fit.

>>> gb.dot(gb.tensor([1.0, 2.0]), gb.tensor([3.0, 4.0]))
tensor(11.)
)");
  m.def("outer", outer, nb::arg("a"), nb::arg("b"),
        R"([M] and [N] -> [M, N]: the products of all pairs. Other shapes are made flat.

>>> gb.outer(gb.tensor([1, 2]), gb.tensor([3, 4]))
tensor([[3, 4],
        [6, 8]])
)");
  m.def(
      "bilinear",
      [](const Tensor& x1, const Tensor& x2, const Tensor& weight, const OptionalTensor& bias) {
        return bilinear(x1, x2, weight, or_none(bias));
      },
      nb::arg("x1"), nb::arg("x2"), nb::arg("weight"), nb::arg("bias") = nb::none(),
      R"(y[..., o] = x1[..., i] · weight[o, i, j] · x2[..., j] + bias[o], as torch.nn.functional has it.

Parameters
----------
x1 : Tensor
    [..., I]
x2 : Tensor
    [..., J]
weight : Tensor
    [O, I, J]
bias : Tensor, optional
    [O]

Returns
-------
Tensor
    [..., O]

Raises
------
ValueError
    Where shapes do not fit.

>>> gb.bilinear(gb.tensor([2.0]), gb.tensor([3.0]), gb.tensor([[[1.0]]]), gb.tensor([1.0]))
tensor([7.])
)");
  m.def("scaled_dot_product_attention", attended, nb::arg("query"), nb::arg("key"), nb::arg("value"),
        nb::arg("attn_mask") = nb::none(), nb::kw_only(), nb::arg("is_causal") = false, nb::arg("scale") = nb::none(),
        R"(softmax(query · keyᵀ · scale + mask) · value (Vaswani et al. 2017), as torch.nn.functional has it.

Parameters
----------
query : Tensor
    [..., H, L, D], of float32, float64, float16 or bfloat16.
key : Tensor
    [..., G, S, D]; H is a multiple of G, and head h reads head h / (H / G).
value : Tensor
    [..., G, S, E]
attn_mask : Tensor, optional
    Broadcast to [..., H, L, S]. Of bool: True where a query may look; else added to the scores.
is_causal : bool
    Query l sees keys 0 to l.
scale : float, optional
    Without it, 1 / sqrt(D).

Returns
-------
Tensor
    [..., H, L, E]; zeros for a query whose bool mask lets it see nothing.

Raises
------
ValueError
    Where shapes or dtypes do not fit.

>>> x = gb.ones((1, 2, 4))
>>> gb.scaled_dot_product_attention(x, x, x).shape
(1, 2, 4)
)");
}

}  // namespace gabbro::python
