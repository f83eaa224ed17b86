// Functions that look at the same elements in another shape, as functions and as methods.
#include <algorithm>
#include <numeric>

#include <fmt/ranges.h>

#include "python/src/checked.h"
#include "python/src/ops.h"
#include "python/src/views.h"

namespace gabbro::python {
namespace {

constexpr nb::call_policy<ViewOfFirst> kView;

// One length may be -1: what the number of elements leaves for it.
Shape completed(const Tensor& x, std::vector<int64_t> lengths) {
  const auto open = std::ranges::find(lengths, -1);
  if (open == lengths.end()) return shape_of("reshape", lengths);
  if (std::ranges::count(lengths, -1) > 1)
    throw bad_input("[reshape] shape ({}): two open lengths", fmt::join(lengths, ", "));
  *open = 1;
  const int64_t others = shape_of("reshape", lengths).elements(), all = x.shape().elements();
  if (others == 0 || all % others != 0) {
    *open = -1;
    throw bad_input("[reshape] shape ({}) does not have the elements of {}", fmt::join(lengths, ", "),
                    x.shape().to_string());
  }
  *open = all / others;
  return Shape(lengths);
}

Tensor reshaped(const Tensor& x, const std::vector<int64_t>& lengths) { return reshape(x, completed(x, lengths)); }

Tensor permuted(const Tensor& x, const std::vector<int64_t>& axes) {
  std::vector<int> order;
  for (const int64_t axis : axes) order.push_back(x.shape().axis("permute", axis));
  return permute(x, order);
}

Tensor transposed(const Tensor& x) {
  std::vector<int> axes(static_cast<size_t>(x.shape().rank()));
  std::iota(axes.rbegin(), axes.rend(), 0);
  return permute(x, axes);
}

// x.reshape(2, 3) or x.reshape((2, 3)).
std::vector<int64_t> variadic(const char* op, const char* argument, const nb::args& args) {
  return integers(op, argument, args.size() == 1 ? nb::handle(args[0]) : nb::handle(args));
}

Tensor squeezed(const Tensor& x, const AxisArgument& axis) { return squeeze(x, axis.axes); }
// The standard asks for an IndexError; other arguments that do not fit are ValueErrors. NumPy has one that is both,
// too.
[[noreturn]] void throw_axis_error(const char* text) {
  static PyObject* const kind = [] {  // lives as long as the process
    const nb::tuple bases = nb::make_tuple(nb::handle(PyExc_ValueError), nb::handle(PyExc_IndexError));
    return PyErr_NewException("gabbro.AxisError", bases.ptr(), nullptr);
  }();
  PyErr_SetString(kind, text);
  throw nb::python_error();
}

Tensor expanded(const Tensor& x, const Integers& axis) {
  try {
    return expand_dims(x, Axes(axis.values));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kBadInput) throw_axis_error(error.what());
    throw;
  }
}

Tensor moved(const Tensor& x, const Integers& source, const Integers& destination) {
  return moveaxis(x, source.values, destination.values);
}

Tensor broadcasted(const Tensor& x, const Integers& shape) {
  return broadcast_to(x, shape_of("broadcast_to", shape.values));
}

void bind_methods(TensorClass& tensor) {
  tensor
      .def(
          "reshape",
          [](const Tensor& x, const nb::args& shape) { return reshaped(x, variadic("reshape", "shape", shape)); },
          nb::sig("def reshape(self, *shape: int | Sequence[int]) -> Tensor"), kView,
          R"(The same elements in another shape: as `gabbro.reshape`.

>>> gb.tensor([1, 2, 3, 4]).reshape(2, -1).shape
(2, 2)
)")
      .def(
          "permute",
          [](const Tensor& x, const nb::args& axes) { return permuted(x, variadic("permute", "axes", axes)); },
          nb::sig("def permute(self, *axes: int | Sequence[int]) -> Tensor"), kView,
          R"(The axes in another order: as `gabbro.permute_dims`.

>>> gb.tensor([[1, 2, 3]]).permute(1, 0).shape
(3, 1)
)")
      .def("transpose", swapaxes, nb::arg("axis0") = -2, nb::arg("axis1") = -1, kView,
           R"(With two axes swapped.

>>> gb.tensor([[1, 2, 3]]).transpose().shape
(3, 1)
)")
      .def_prop_ro("T", transposed, kView, "With the axes in the opposite order.")
      .def_prop_ro("mT", matrix_transpose, kView, "With the last two axes swapped.")
      .def("flatten", flatten, nb::arg("start_axis") = 0, nb::arg("end_axis") = -1, kView, "As `gabbro.flatten`.")
      .def("squeeze", squeezed, nb::arg("axis") = nb::none(), kView, "As `gabbro.squeeze`.")
      .def("expand_dims", expanded, nb::arg("axis") = Integers{{0}}, kView, "As `gabbro.expand_dims`.")
      .def("swapaxes", swapaxes, nb::arg("axis0"), nb::arg("axis1"), kView, "As `gabbro.swapaxes`.")
      .def("moveaxis", moved, nb::arg("source"), nb::arg("destination"), kView, "As `gabbro.moveaxis`.")
      .def("broadcast_to", broadcasted, nb::arg("shape"), kView, "As `gabbro.broadcast_to`.");
}

}  // namespace

void bind_views(nb::module_& m, TensorClass& tensor) {
  bind_methods(tensor);
  m.def(
      "reshape", [](const Tensor& x, const Integers& shape, nb::handle) { return reshaped(x, shape.values); },
      nb::arg("x"), nb::arg("shape"), nb::kw_only(), nb::arg("copy") = nb::none(),
      nb::sig("def reshape(x: Tensor, shape: int | Sequence[int], *, copy: bool | None = None) -> Tensor"), kView,
      R"(The same elements, in row-major order, in another shape.

Parameters
----------
x : Tensor
    Of any dtype.
shape : int or tuple of int
    With as many elements. One length may be -1: what is left for it.
copy : bool, optional
    Makes no difference: the result is a view where the layout of `x` allows it.

Returns
-------
Tensor
    A view where the layout of `x` allows it.

Raises
------
ValueError
    Where the numbers of elements differ.

>>> gb.reshape(gb.tensor([1, 2, 3, 4]), (2, 2))
tensor([[1, 2],
        [3, 4]])
)");
  m.def(
      "permute_dims", [](const Tensor& x, const Integers& axes) { return permuted(x, axes.values); }, nb::arg("x"),
      nb::arg("axes"), kView, R"(The axes in another order.

Parameters
----------
x : Tensor
    Of any dtype.
axes : tuple of int
    Axis i of the result is axis ``axes[i]`` of `x`.

Returns
-------
Tensor
    A view.

Raises
------
ValueError
    Where `axes` is not a permutation of the axes of `x`.

>>> gb.permute_dims(gb.tensor([[1, 2], [3, 4]]), (1, 0))
tensor([[1, 3],
        [2, 4]])
)");
  m.attr("permute") = m.attr("permute_dims");
  m.def("broadcast_to", broadcasted, nb::arg("x"), nb::arg("shape"), kView,
        R"(Repeated along new axes and axes of length 1, without a copy.

Parameters
----------
x : Tensor
    Of any dtype.
shape : int or tuple of int
    To which the shape of `x` can be broadcast, as NumPy does.

Returns
-------
Tensor
    A view.

Raises
------
ValueError
    Where the shapes do not fit.

>>> gb.broadcast_to(gb.tensor([1, 2]), (2, 2))
tensor([[1, 2],
        [1, 2]])
)");
  m.def("flatten", flatten, nb::arg("x"), nb::arg("start_axis") = 0, nb::arg("end_axis") = -1, kView,
        R"(Axes made one, in row-major order.

Parameters
----------
x : Tensor
    Of any dtype.
start_axis, end_axis : int
    The first and the last of them.

Returns
-------
Tensor
    Of shape (1,) where `x` has no axes.

Raises
------
ValueError
    For axes that `x` does not have, or in the wrong order.

>>> gb.flatten(gb.tensor([[1, 2], [3, 4]]))
tensor([1, 2, 3, 4])
)");
  m.def("squeeze", squeezed, nb::arg("x"), nb::arg("axis") = nb::none(), kView, R"(Without axes of length 1.

Parameters
----------
x : Tensor
    Of any dtype.
axis : int or tuple of int, optional
    Of length 1 each. None: all axes of length 1.

Returns
-------
Tensor
    A view.

Raises
------
ValueError
    For axes that `x` does not have, or that are longer.

>>> gb.squeeze(gb.ones((1, 2, 1)), axis=0).shape
(2, 1)
)");
  m.def("expand_dims", expanded, nb::arg("x"), nb::arg("axis") = Integers{{0}}, kView, R"(With new axes of length 1.

Parameters
----------
x : Tensor
    Of any dtype.
axis : int or tuple of int
    Their places in the result.

Returns
-------
Tensor
    A view.

Raises
------
ValueError, which is an IndexError as well
    For places that the result does not have, or that are named twice.

>>> gb.expand_dims(gb.ones(3), axis=(0, -1)).shape
(1, 3, 1)
)");
  m.def("moveaxis", moved, nb::arg("x"), nb::arg("source"), nb::arg("destination"), kView,
        R"(Axes moved to other places; the others stay in order.

Parameters
----------
x : Tensor
    Of any dtype.
source, destination : int or tuple of int
    As many of each.

Returns
-------
Tensor
    A view.

Raises
------
ValueError
    For axes that `x` does not have, or that are named twice.

>>> gb.moveaxis(gb.ones((2, 3, 4)), 0, -1).shape
(3, 4, 2)
)");
  m.def("swapaxes", swapaxes, nb::arg("x"), nb::arg("axis0"), nb::arg("axis1"), kView, R"(With two axes swapped: a view.

Raises
------
ValueError
    For axes that `x` does not have.

>>> gb.swapaxes(gb.ones((2, 3, 4)), 0, -1).shape
(4, 3, 2)
)");
  m.def("transpose", swapaxes, nb::arg("x"), nb::arg("axis0") = -2, nb::arg("axis1") = -1, kView,
        R"(With two axes swapped, of a matrix rows and columns: a view.

Raises
------
ValueError
    For axes that `x` does not have.

>>> gb.transpose(gb.ones((2, 3))).shape
(3, 2)
)");
  m.def("matrix_transpose", matrix_transpose, nb::arg("x"), kView, R"([..., M, N] as [..., N, M]: a view.

Raises
------
ValueError
    For a tensor with fewer than two axes.

>>> gb.matrix_transpose(gb.tensor([[1, 2], [3, 4]]))
tensor([[1, 3],
        [2, 4]])
)");
  m.def(
      "broadcast_arrays",
      [](const nb::args& arrays) { return broadcast_arrays(tensors_argument("broadcast_arrays", arrays)); },
      nb::sig("def broadcast_arrays(*arrays: Tensor) -> list[Tensor]"),
      R"(Each of the tensors in the shape to which all can be broadcast: views.

Raises
------
ValueError
    Where the shapes do not fit.

>>> a, b = gb.broadcast_arrays(gb.ones((2, 1)), gb.ones(3))
>>> a.shape, b.shape
((2, 3), (2, 3))
)");
}

}  // namespace gabbro::python
