// Reductions, sums along an axis, sorting.
#include "python/ops.h"

namespace gabbro::python {
namespace {

using Reduction = Tensor (*)(const Tensor&);

void reduction(nb::module_& m, TensorClass& tensor, const char* name, Reduction function, const char* what,
               const char* shown, const char* dtypes = "float32, float16, bfloat16 (in float32) or int32") {
  const std::string doc = fmt::format(R"({} A NaN gives NaN.

Parameters
----------
x : Tensor
    [..., C], of {}.

Returns
-------
Tensor
    [..., 1]

Raises
------
ValueError
    For other dtypes, and a tensor of shape ().

>>> gb.{}(gb.tensor([[1.0, 2.0], [3.0, 5.0]]))
{}
)",
                                      what, dtypes, name, shown);
  m.def(name, function, nb::arg("x"), doc.c_str());
  tensor.def(name, function, fmt::format("As `gabbro.{}`.", name).c_str());
}

}  // namespace

void bind_reductions(nb::module_& m, TensorClass& tensor) {
  reduction(m, tensor, "sum", sum, "The sum over the last axis; integers wrap around.",
            "tensor([[3.],\n        [8.]])");
  reduction(m, tensor, "prod", prod, "The product over the last axis; integers wrap around.",
            "tensor([[ 2.],\n        [15.]])");
  reduction(m, tensor, "max", max, "The largest element along the last axis.", "tensor([[2.],\n        [5.]])");
  reduction(m, tensor, "min", min, "The smallest element along the last axis.", "tensor([[1.],\n        [3.]])");
  reduction(m, tensor, "mean", mean, "The mean over the last axis.", "tensor([[1.5],\n        [4. ]])",
            "float32, float16 or bfloat16 (in float32)");
  reduction(m, tensor, "argmax", argmax,
            "Where the largest element along the last axis is: the first of equals, int32.",
            "tensor([[1],\n        [1]])");
  reduction(m, tensor, "argmin", argmin,
            "Where the smallest element along the last axis is: the first of equals, int32.",
            "tensor([[0],\n        [0]])");

  m.def("var", var, nb::arg("x"), nb::arg("correction") = 1.0,
        R"(sum((x - mean)²) / (C - correction) over the last axis.

Parameters
----------
x : Tensor
    [..., C], of float32, float16 or bfloat16 (in float32).
correction : float
    1: of a sample (Bessel); 0: of the whole population.

Returns
-------
Tensor
    [..., 1]; NaN where C <= correction.

Raises
------
ValueError
    For other dtypes, and a tensor of shape ().

>>> gb.var(gb.tensor([1.0, 3.0]))
tensor([2.])
)");
  tensor.def("var", var, nb::arg("correction") = 1.0, "As `gabbro.var`.")
      .def("cumsum", cumsum, nb::arg("axis") = -1, "As `gabbro.cumsum`.")
      .def("sort", sort, nb::arg("axis") = -1, nb::arg("descending") = false, "As `gabbro.sort`.")
      .def("argsort", argsort, nb::arg("axis") = -1, nb::arg("descending") = false, "As `gabbro.argsort`.");
  m.def("cumsum", cumsum, nb::arg("x"), nb::arg("axis") = -1, R"(Sums up to each element along an axis.

Parameters
----------
x : Tensor
    Of float32, float16, bfloat16 (in float32) or int32 (which wraps around).
axis : int
    From -ndim to ndim - 1.

Returns
-------
Tensor
    Of the shape and dtype of `x`.

Raises
------
ValueError
    For other dtypes and axes.

>>> gb.cumsum(gb.tensor([1, 2, 3]))
tensor([1, 3, 6])
)");
  m.def("sort", sort, nb::arg("x"), nb::arg("axis") = -1, nb::arg("descending") = false,
        R"(The elements in order along an axis. Stable; NaNs come after all numbers.

Parameters
----------
x : Tensor
    Of float32, float16, bfloat16 or int32.
axis : int
    From -ndim to ndim - 1.
descending : bool
    The largest first (so NaNs before all).

Returns
-------
Tensor
    Of the shape and dtype of `x`.

Raises
------
ValueError
    For other dtypes and axes.

>>> gb.sort(gb.tensor([3, 1, 2]))
tensor([1, 2, 3])
)");
  m.def("argsort", argsort, nb::arg("x"), nb::arg("axis") = -1, nb::arg("descending") = false,
        R"(Where the elements of `sort` come from: int32, of the shape of `x`. Arguments and errors are those of `sort`.

>>> gb.argsort(gb.tensor([3, 1, 2]))
tensor([1, 2, 0])
)");
  m.def(
      "topk",
      [](const Tensor& x, int64_t k, int64_t axis, bool largest) {
        const TopK found = topk(x, k, axis, largest);
        return std::pair(found.values, found.indices);
      },
      nb::arg("x"), nb::arg("k"), nb::arg("axis") = -1, nb::arg("largest") = true,
      R"(The `k` largest elements along an axis, in order.

Parameters
----------
x : Tensor
    Of float32, float16, bfloat16 or int32.
k : int
    From 0 to the length of the axis.
axis : int
    From -ndim to ndim - 1.
largest : bool
    False: the smallest.

Returns
-------
values, indices : tuple of Tensor
    With length `k` along the axis; indices in int32.

Raises
------
ValueError
    For other dtypes and axes, and for a `k` that is out of range.

>>> gb.topk(gb.tensor([3, 1, 2]), 2)
(tensor([3, 2]), tensor([0, 2]))
)");
}

}  // namespace gabbro::python
