// Elements by index.
#include "python/ops.h"

namespace gabbro::python {

void bind_picking(nb::module_& m) {
  m.def("gather", gather, nb::arg("x"), nb::arg("indices"), R"(Rows by number.

Parameters
----------
x : Tensor
    [R, ...]
indices : Tensor
    int32 [T], from 0 to R - 1.

Returns
-------
Tensor
    [T, ...]

Raises
------
ValueError
    Where shapes or dtypes do not fit.

>>> gb.gather(gb.tensor([[1, 2], [3, 4]]), gb.tensor([1, 1]))
tensor([[3, 4],
        [3, 4]])
)");
  m.def("take_along_axis", take_along_axis, nb::arg("x"), nb::arg("indices"), nb::arg("axis") = -1,
        R"(Elements by index along an axis, as torch.gather.

Parameters
----------
x : Tensor
    Of float32, int32, float16, bfloat16 or bool.
indices : Tensor
    int32, with the lengths of `x` along the other axes. One that is outside reads the nearest element.
axis : int
    From -ndim to ndim - 1.

Returns
-------
Tensor
    Of the shape of `indices`.

Raises
------
ValueError
    Where shapes, dtypes or the axis do not fit.

>>> gb.take_along_axis(gb.tensor([[1, 2], [3, 4]]), gb.tensor([[1], [0]]))
tensor([[2],
        [3]])
)");
  m.def("scatter_add", scatter_add, nb::arg("x"), nb::arg("indices"), nb::arg("values"), nb::arg("axis") = -1,
        R"(`x` with ``values[..., k, ...]`` added where ``indices[..., k, ...]`` says along an axis.

Added in the order of k: the same bits every time. An index that is outside is left out.

Parameters
----------
x : Tensor
    Of float32, int32, float16 or bfloat16.
indices : Tensor
    int32
values : Tensor
    Of the shape of `indices`; of the dtype of `x`, or float32 for halves.
axis : int
    From -ndim to ndim - 1.

Returns
-------
Tensor
    Of the shape and dtype of `x`.

Raises
------
ValueError
    Where shapes, dtypes or the axis do not fit.

>>> gb.scatter_add(gb.tensor([0.0, 0.0]), gb.tensor([1, 1]), gb.tensor([1.0, 2.0]))
tensor([0., 3.])
)");
  m.def("index_add", index_add, nb::arg("x"), nb::arg("indices"), nb::arg("values"),
        R"(`x` [R, ...] with the rows of `values` [K, ...] added to its rows `indices` [K].

Dtypes, order and errors are those of `scatter_add`.

>>> gb.index_add(gb.tensor([[0.0], [0.0]]), gb.tensor([1]), gb.tensor([[2.0]]))
tensor([[0.],
        [2.]])
)");
  m.def("tril", tril, nb::arg("x"), nb::arg("diagonal") = 0,
        R"(`x` [..., M, N] with zeros above the diagonal that begins at column `diagonal`.

Raises
------
ValueError
    For a tensor with fewer than two axes.

>>> gb.tril(gb.tensor([[1, 2], [3, 4]]))
tensor([[1, 0],
        [3, 4]])
)");
  m.def("triu", triu, nb::arg("x"), nb::arg("diagonal") = 0,
        R"(`x` [..., M, N] with zeros below the diagonal that begins at column `diagonal`.

Raises
------
ValueError
    For a tensor with fewer than two axes.

>>> gb.triu(gb.tensor([[1, 2], [3, 4]]))
tensor([[1, 2],
        [0, 4]])
)");
}

}  // namespace gabbro::python
