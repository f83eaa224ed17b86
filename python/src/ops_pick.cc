// Elements by index.
#include "python/src/ops.h"
#include "src/base/error.h"
#include "src/ops/functions/labels.h"
#include "src/ops/rules.h"

namespace gabbro::python {

namespace {

// numpy.take: without an axis, of x made flat.
Tensor taken(const Tensor& x, const Tensor& indices, std::optional<int64_t> axis) {
  return axis ? take(x, indices, *axis) : take(x.shape().rank() == 1 ? x : flatten(x), indices, 0);
}

// table [V, C] and ids [...] of any integer dtype to [..., C] in the table's dtype.
Tensor rows_of(const Tensor& table, const Tensor& ids) {
  require_plain("embedding", table);
  require_plain("embedding", ids);
  require_rank("embedding", table, 2);
  const Tensor rows = pick(table, flatten(ids), 0, {"embedding"});
  std::vector<int64_t> lengths(ids.shape().lengths().begin(), ids.shape().lengths().end());
  lengths.push_back(table.shape()[1]);
  return reshape(rows, Shape(lengths));
}

}  // namespace

void bind_picking(nb::module_& m, TensorClass& tensor) {
  tensor.def("take", taken, nb::arg("indices"), nb::arg("axis") = nb::none(), "As `gabbro.take`.")
      .def("take_along_axis", take_along_axis, nb::arg("indices"), nb::arg("axis") = -1, "As `gabbro.take_along_axis`.")
      .def(
          "nonzero", [](const Tensor& x) { return nb::tuple(nb::cast(nonzero(x))); },
          nb::sig("def nonzero(self) -> tuple[Tensor, ...]"), "As `gabbro.nonzero`.")
      .def("tril", tril, nb::arg("k") = 0, "As `gabbro.tril`.")
      .def("triu", triu, nb::arg("k") = 0, "As `gabbro.triu`.");
  m.def("take", taken, nb::arg("x"), nb::arg("indices"), nb::kw_only(), nb::arg("axis") = nb::none(),
        R"(Elements, or slices along an axis, by number.

Parameters
----------
x : Tensor
    Of any dtype but block formats.
indices : Tensor
    Integers of any dtype and shape; negative ones count from the end.
axis : int, optional
    From -ndim to ndim - 1. None: of `x` made flat.

Returns
-------
Tensor
    The shape of `x`, with the axes of `indices` in place of the axis.

Raises
------
IndexError
    For an index that is out of range: when the result is computed, on a GPU at the next synchronization.
ValueError
    For an axis that `x` does not have, and for indices of other dtypes.

>>> gb.take(gb.tensor([10, 20, 30]), gb.tensor([2, 0, -1]))
tensor([30, 10, 30])
)");
  m.def("put_along_axis", put_along_axis, nb::arg("x"), nb::arg("indices"), nb::arg("values"), nb::arg("axis") = -1,
        R"(`x` with ``values[..., k, ...]`` where ``indices[..., k, ...]`` says along an axis.

Of equal indices the last counts.

Parameters
----------
x : Tensor
    Of any dtype but block formats.
indices : Tensor
    Integers, with the lengths of `x` along the other axes; negative ones count from the end.
values : Tensor
    Of the shape of `indices`; cast to the dtype of `x`.
axis : int
    From -ndim to ndim - 1.

Returns
-------
Tensor
    Of the shape and dtype of `x`: tensors do not change.

Raises
------
IndexError
    For an index that is out of range, as `take`.
ValueError
    Where shapes, dtypes or the axis do not fit.

>>> gb.put_along_axis(gb.tensor([1, 2, 3]), gb.tensor([2]), gb.tensor([7]))
tensor([1, 2, 7])
)");
  m.def(
      "nonzero", [](const Tensor& x) { return nb::tuple(nb::cast(nonzero(x))); }, nb::arg("x"),
      nb::sig("def nonzero(x: Tensor) -> tuple[Tensor, ...]"),
      R"(Where the elements are that are not zero. Evaluates `x`.

Returns
-------
tuple of Tensor
    For each axis, their places along it: int32 [count], in row-major order.

Raises
------
ValueError
    For a tensor of shape (), and block formats.

>>> gb.nonzero(gb.tensor([0, 5, 0, 7]))
(tensor([1, 3]),)
)");
  m.def("_rows", [](const Tensor& table, const Tensor& ids) { return rows_of(table, ids); });
  m.def("_one_hot", [](const Tensor& labels, int64_t classes) {
    require_index_dtype("one_hot", labels);
    if (classes < 1) throw bad_input("[one_hot] {} classes", classes);
    const Tensor own = label_positions(labels, classes, {"one_hot", labels.shape().rank()}, kNoLabel);
    return cast(equal(expand_dims(own, -1), iota(labels.device(), classes, DType::i32)), DType::i32);
  });
  m.def("_unique", [](const Tensor& x) {
    const Unique found = unique(x);
    return std::vector{found.values, found.indices, found.inverse, found.counts};
  });
  m.def("gather", gather, nb::arg("x"), nb::arg("indices"), R"(Rows by number.

Parameters
----------
x : Tensor
    [R, ...]
indices : Tensor
    Integers [T], from -R to R - 1: negative ones count from the end.

Returns
-------
Tensor
    [T, ...]

Raises
------
IndexError
    For an index that is out of range, as `take`.
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
    Of any dtype but block formats.
indices : Tensor
    Integers, with the lengths of `x` along the other axes; negative ones count from the end.
axis : int
    From -ndim to ndim - 1.

Returns
-------
Tensor
    Of the shape of `indices`.

Raises
------
IndexError
    For an index that is out of range, as `take`.
ValueError
    Where shapes, dtypes or the axis do not fit.

>>> gb.take_along_axis(gb.tensor([[1, 2], [3, 4]]), gb.tensor([[1], [0]]))
tensor([[2],
        [3]])
)");
  m.def("scatter_add", scatter_add, nb::arg("x"), nb::arg("indices"), nb::arg("values"), nb::arg("axis") = -1,
        R"(`x` with ``values[..., k, ...]`` added where ``indices[..., k, ...]`` says along an axis.

Added in the order of k: the same bits every time.

Parameters
----------
x : Tensor
    Of float32, int32, float16 or bfloat16.
indices : Tensor
    Integers, with the lengths of `x` along the other axes; negative ones count from the end.
values : Tensor
    Of the shape of `indices`; of the dtype of `x`, or float32 for float16 and bfloat16.
axis : int
    From -ndim to ndim - 1.

Returns
-------
Tensor
    Of the shape and dtype of `x`.

Raises
------
IndexError
    For an index that is out of range, as `take`.
ValueError
    Where shapes, dtypes or the axis do not fit.

>>> gb.scatter_add(gb.tensor([0.0, 0.0]), gb.tensor([1, 1]), gb.tensor([1.0, 2.0]))
tensor([0., 3.])
)");
  m.def("index_add", index_add, nb::arg("x"), nb::arg("indices"), nb::arg("values"),
        R"(`x` [R, ...] with the rows of `values` [K, ...] added to its rows `indices` [K].

Dtypes, order and errors are as in `scatter_add`.

>>> gb.index_add(gb.tensor([[0.0], [0.0]]), gb.tensor([1]), gb.tensor([[2.0]]))
tensor([[0.],
        [2.]])
)");
  m.def("tril", tril, nb::arg("x"), nb::arg("k") = 0,
        R"(`x` [..., M, N] with zeros above the diagonal that begins at column `k`.

Raises
------
ValueError
    For a tensor with fewer than two axes.

>>> gb.tril(gb.tensor([[1, 2], [3, 4]]))
tensor([[1, 0],
        [3, 4]])
)");
  m.def("triu", triu, nb::arg("x"), nb::arg("k") = 0,
        R"(`x` [..., M, N] with zeros below the diagonal that begins at column `k`.

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
