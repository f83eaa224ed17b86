// Functions that copy elements to other places: concat, stack, pad, repeat, tile, roll, flip.
#include "python/ops.h"

namespace gabbro::python {
namespace {

Tensor joined(const std::vector<Tensor>& arrays, std::optional<int64_t> axis) {
  if (axis) return concat(arrays, *axis);
  std::vector<Tensor> flat;
  for (const Tensor& array : arrays) flat.push_back(flatten(array));
  return concat(flat, 0);
}

PadMode pad_mode(const std::string& mode) {
  if (mode == "constant") return PadMode::kConstant;
  if (mode == "reflect") return PadMode::kReflect;
  if (mode == "edge") return PadMode::kEdge;
  throw bad_input("[pad] mode is 'constant', 'reflect' or 'edge', not '{}'", mode);
}

// As NumPy: n, (before, after), or one such pair for each axis.
std::vector<std::pair<int64_t, int64_t>> pad_widths(nb::handle widths) {
  const bool pairs = nb::isinstance<nb::sequence>(widths) && nb::len(widths) > 0 &&
                     nb::isinstance<nb::sequence>(nb::borrow<nb::sequence>(widths)[0]);
  std::vector<std::pair<int64_t, int64_t>> result;
  const auto add = [&](nb::handle pair) {
    const std::vector<int64_t> numbers = integers("pad", "pad_width", pair);
    if (numbers.size() > 2 || numbers.empty()) throw bad_input("[pad] {} widths for an axis", numbers.size());
    result.emplace_back(numbers.front(), numbers.back());
  };
  if (!pairs) {
    add(widths);
  } else {
    for (nb::handle pair : nb::borrow<nb::sequence>(widths)) add(pair);
  }
  return result;
}

Tensor padded(const Tensor& x, nb::handle widths, const std::string& mode, nb::handle constant_values) {
  return pad(x, pad_widths(widths), pad_mode(mode), number_argument("pad", constant_values));
}

Tensor rolled(const Tensor& x, const Integers& shift, const std::optional<Integers>& axis) {
  if (axis) return roll(x, shift.values, Axes(axis->values));
  if (shift.values.size() != 1) throw bad_input("[roll] {} shifts without axes", shift.values.size());
  return roll(x, shift.values[0]);
}

Tensor flipped(const Tensor& x, const AxisArgument& axis) { return flip(x, axis.axes); }
Tensor tiled(const Tensor& x, const Integers& repetitions) { return tile(x, repetitions.values); }

}  // namespace

void bind_rearranging(nb::module_& m, TensorClass& tensor) {
  tensor.def("repeat", repeat, nb::arg("repeats"), nb::arg("axis") = nb::none(), "As `gabbro.repeat`.")
      .def("tile", tiled, nb::arg("repetitions"), "As `gabbro.tile`.")
      .def("roll", rolled, nb::arg("shift"), nb::arg("axis") = nb::none(), "As `gabbro.roll`.")
      .def("flip", flipped, nb::arg("axis") = nb::none(), "As `gabbro.flip`.");
  m.def("concat", joined, nb::arg("arrays"), nb::arg("axis") = 0, R"(Tensors one after the other along an axis.

Parameters
----------
arrays : sequence of Tensor
    Of one shape but for the axis.
axis : int, optional
    From -ndim to ndim - 1. None: of the tensors made flat.

Returns
-------
Tensor
    Of the dtype in which all meet (`result_type`).

Raises
------
ValueError
    Where shapes do not fit, or there are no tensors.

>>> gb.concat([gb.tensor([1, 2]), gb.tensor([3])])
tensor([1, 2, 3])
)");
  m.def("stack", stack, nb::arg("arrays"), nb::arg("axis") = 0, R"(Tensors one after the other along a new axis.

Parameters
----------
arrays : sequence of Tensor
    Of one shape.
axis : int
    The place of the new axis in the result.

Returns
-------
Tensor
    Of the dtype in which all meet (`result_type`).

Raises
------
ValueError
    Where shapes differ, or there are no tensors.

>>> gb.stack([gb.tensor([1, 2]), gb.tensor([3, 4])], axis=1)
tensor([[1, 3],
        [2, 4]])
)");
  m.def("pad", padded, nb::arg("x"), nb::arg("pad_width"), nb::arg("mode") = "constant", nb::arg("constant_values") = 0,
        nb::sig("def pad(x: Tensor, pad_width: int | Sequence[int] | Sequence[Sequence[int]], mode: str = 'constant', "
                "constant_values: float = 0) -> Tensor"),
        R"(With more elements before and after, as numpy.pad.

Parameters
----------
x : Tensor
    Of any dtype but block formats.
pad_width : int, pair of int, or one pair for each axis
    How many before and after. One pair stands for all axes.
mode : str
    ``"constant"``; ``"reflect"``, which mirrors about the first and last element; or ``"edge"``, which repeats these.
constant_values : number
    With ``"constant"``.

Raises
------
ValueError
    For negative widths, widths that do not fit the shape, and another mode.

>>> gb.pad(gb.tensor([1, 2]), (1, 2))
tensor([0, 1, 2, 0, 0])
)");
  m.def("repeat", repeat, nb::arg("x"), nb::arg("repeats"), nb::arg("axis") = nb::none(),
        R"(Each element several times.

Parameters
----------
x : Tensor
    Of any dtype but block formats.
repeats : int
axis : int, optional
    From -ndim to ndim - 1. None: of `x` made flat.

Raises
------
ValueError
    For an axis that `x` does not have, and negative numbers of times.

>>> gb.repeat(gb.tensor([1, 2]), 2)
tensor([1, 1, 2, 2])
)");
  m.def("tile", tiled, nb::arg("x"), nb::arg("repetitions"), R"(The whole tensor several times along each axis.

Parameters
----------
x : Tensor
    Of any dtype but block formats.
repetitions : int or tuple of int
    For the last axes; where there are more of them than axes, `x` gets new axes in front.

Raises
------
ValueError
    For negative numbers of times, and too many elements.

>>> gb.tile(gb.tensor([1, 2]), 2)
tensor([1, 2, 1, 2])
)");
  m.def("roll", rolled, nb::arg("x"), nb::arg("shift"), nb::arg("axis") = nb::none(),
        R"(Elements moved along axes; those that leave at the end come in at the beginning.

Parameters
----------
x : Tensor
    Of any dtype but block formats.
shift : int or tuple of int
    By how many places; one number for each axis.
axis : int or tuple of int, optional
    None: of `x` made flat, which then has its shape again.

Raises
------
ValueError
    For axes that `x` does not have, and another number of shifts than of axes.

>>> gb.roll(gb.tensor([1, 2, 3]), 1)
tensor([3, 1, 2])
)");
  m.def("flip", flipped, nb::arg("x"), nb::arg("axis") = nb::none(), R"(The elements in the opposite order along axes.

Parameters
----------
x : Tensor
    Of any dtype but block formats.
axis : int or tuple of int, optional
    None: all axes.

Raises
------
ValueError
    For axes that `x` does not have, or that are named twice.

>>> gb.flip(gb.tensor([1, 2, 3]))
tensor([3, 2, 1])
)");
}

}  // namespace gabbro::python
