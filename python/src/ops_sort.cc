// Along one axis: running sums, sorting.
#include "python/src/ops.h"

namespace gabbro::python {

void bind_sorting(nb::module_& m, TensorClass& tensor) {
  const auto sorted = [](const Tensor& x, int64_t axis, bool descending, bool) { return sort(x, axis, descending); };
  const auto places = [](const Tensor& x, int64_t axis, bool descending, bool) { return argsort(x, axis, descending); };
  const auto largest_k = [](const Tensor& x, int64_t k, int64_t axis, bool largest) {
    const TopK found = topk(x, k, axis, largest);
    return std::pair(found.values, found.indices);
  };
  tensor.def("cumsum", cumsum, nb::arg("axis") = -1, "As `gabbro.cumsum`.")
      .def("sort", sorted, nb::arg("axis") = -1, nb::arg("descending") = false, nb::arg("stable") = true,
           "As `gabbro.sort`.")
      .def("argsort", places, nb::arg("axis") = -1, nb::arg("descending") = false, nb::arg("stable") = true,
           "As `gabbro.argsort`.")
      .def("topk", largest_k, nb::arg("k"), nb::arg("axis") = -1, nb::arg("largest") = true, "As `gabbro.topk`.");
  m.def("cumsum", cumsum, nb::arg("x"), nb::arg("axis") = -1, R"(Sums up to each element along an axis.

Parameters
----------
x : Tensor
    Of any dtype but block formats.
axis : int
    From -ndim to ndim - 1.

Returns
-------
Tensor
    Of the shape of `x`, in the dtype of `sum`.

Raises
------
ValueError
    For block formats, and other axes.

>>> gb.cumsum(gb.tensor([1, 2, 3]))
tensor([1, 3, 6], dtype=int64)
)");
  m.def("sort", sorted, nb::arg("x"), nb::arg("axis") = -1, nb::arg("descending") = false, nb::arg("stable") = true,
        R"(The elements in order along an axis. NaNs come after all numbers.

Parameters
----------
x : Tensor
    Of any dtype but block formats.
axis : int
    From -ndim to ndim - 1.
descending : bool
    The largest first (so NaNs before all).
stable : bool
    Makes no difference: equal elements always stay in order.

Returns
-------
Tensor
    Of the shape and dtype of `x`.

Raises
------
ValueError
    For block formats, and other axes.

>>> gb.sort(gb.tensor([3, 1, 2]))
tensor([1, 2, 3])
)");
  m.def("argsort", places, nb::arg("x"), nb::arg("axis") = -1, nb::arg("descending") = false, nb::arg("stable") = true,
        R"(The indices that sort `x`: int32, of the shape of `x`. Arguments and errors are as in `sort`.

>>> gb.argsort(gb.tensor([3, 1, 2]))
tensor([1, 2, 0])
)");
  m.def("topk", largest_k, nb::arg("x"), nb::arg("k"), nb::arg("axis") = -1, nb::arg("largest") = true,
        R"(The `k` largest elements along an axis, in order.

Parameters
----------
x : Tensor
    Of any dtype but block formats.
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
    For block formats, other axes, and a `k` that is out of range.

>>> gb.topk(gb.tensor([3, 1, 2]), 2)
(tensor([3, 2]), tensor([0, 2]))
)");
}

}  // namespace gabbro::python
