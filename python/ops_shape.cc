// Views and concat, as functions and as methods.
#include <algorithm>
#include <numeric>

#include "python/ops.h"

namespace gabbro::python {
namespace {

// One length may be -1: what the number of elements leaves for it.
Shape completed(const Tensor& x, std::vector<int64_t> lengths) {
  const auto open = std::ranges::find(lengths, -1);
  if (open == lengths.end()) return shape_argument("reshape", nb::cast(lengths));
  if (std::ranges::count(lengths, -1) > 1)
    throw bad_input("[reshape] shape ({}): two open lengths", fmt::join(lengths, ", "));
  *open = 1;
  const int64_t others = shape_argument("reshape", nb::cast(lengths)).elements(), all = x.shape().elements();
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

Tensor swapped(const Tensor& x, int64_t a, int64_t b) {
  std::vector<int> axes(static_cast<size_t>(x.shape().rank()));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[static_cast<size_t>(x.shape().axis("transpose", a))],
            axes[static_cast<size_t>(x.shape().axis("transpose", b))]);
  return permute(x, axes);
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

void bind_methods(TensorClass& tensor) {
  tensor
      .def(
          "reshape",
          [](const Tensor& x, const nb::args& shape) { return reshaped(x, variadic("reshape", "shape", shape)); },
          nb::sig("def reshape(self, *shape: int | Sequence[int]) -> Tensor"),
          R"(The same elements in another shape: as `gabbro.reshape`.

>>> gb.tensor([1, 2, 3, 4]).reshape(2, -1).shape
(2, 2)
)")
      .def(
          "permute",
          [](const Tensor& x, const nb::args& axes) { return permuted(x, variadic("permute", "axes", axes)); },
          nb::sig("def permute(self, *axes: int | Sequence[int]) -> Tensor"),
          R"(The axes in another order: as `gabbro.permute_dims`.

>>> gb.tensor([[1, 2, 3]]).permute(1, 0).shape
(3, 1)
)")
      .def("transpose", swapped, nb::arg("axis0") = -2, nb::arg("axis1") = -1,
           R"(With two axes swapped.

>>> gb.tensor([[1, 2, 3]]).transpose().shape
(3, 1)
)")
      .def_prop_ro("T", transposed, "With the axes in the opposite order.")
      .def(
          "flatten", [](const Tensor& x) { return reshape(x, Shape{x.shape().elements()}); },
          R"(All elements along one axis.

>>> gb.tensor([[1, 2], [3, 4]]).flatten()
tensor([1, 2, 3, 4])
)");
}

}  // namespace

void bind_shaping(nb::module_& m, TensorClass& tensor) {
  bind_methods(tensor);
  m.def(
      "reshape", [](const Tensor& x, const Integers& shape) { return reshaped(x, shape.values); }, nb::arg("x"),
      nb::arg("shape"), R"(The same elements, in row-major order, in another shape.

Parameters
----------
x : Tensor
    Of any dtype.
shape : int or tuple of int
    With as many elements. One length may be -1: what is left for it.

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
      nb::arg("axes"), R"(The axes in another order.

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
  m.def(
      "broadcast_to",
      [](const Tensor& x, const Integers& shape) {
        return broadcast_to(x, shape_argument("broadcast_to", nb::cast(shape.values)));
      },
      nb::arg("x"), nb::arg("shape"), R"(Repeated along new axes and axes of length 1, without a copy.

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
  m.def(
      "concat", [](const std::vector<Tensor>& parts, int64_t axis) { return concat(parts, axis); }, nb::arg("parts"),
      nb::arg("axis") = 0, R"(Tensors one after the other along an axis.

Parameters
----------
parts : sequence of Tensor
    Of one dtype, and of one shape but for the axis.
axis : int
    From -ndim to ndim - 1.

Returns
-------
Tensor
    Of the dtype of the parts.

Raises
------
ValueError
    Where shapes or dtypes do not fit, or there are no parts.

>>> gb.concat([gb.tensor([1, 2]), gb.tensor([3])])
tensor([1, 2, 3])
)");
}

}  // namespace gabbro::python
