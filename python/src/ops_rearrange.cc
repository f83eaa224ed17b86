// Functions that copy elements to other places: concat, stack, pad, repeat, tile, roll, flip.
#include "python/src/ops.h"
#include "src/ops/op_table.h"
#include "src/plan/eval.h"

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

// Another tensor of the same elements where the op has nothing to do, so that the result is a computed tensor.
Tensor as_result(const Tensor& x, const Tensor& y) { return &y.state() == &x.state() ? record(kIdentity, {x}) : y; }

Tensor rolled(const Tensor& x, const Integers& shift, const std::optional<Integers>& axis) {
  if (axis) return as_result(x, roll(x, shift.values, Axes(axis->values)));
  if (shift.values.size() != 1) throw bad_input("[roll] {} shifts without axes", shift.values.size());
  return as_result(x, roll(x, shift.values[0]));
}

// As the result's length depends on them, numbers of times are not left to be computed later.
std::vector<int64_t> known_counts(const Tensor& repeats) {
  if (!is_integer(repeats.dtype()) || repeats.shape().rank() > 1)
    throw bad_input("[repeat] repeats are integers along one axis, not {} of shape {}",
                    dtype_public_name(repeats.dtype()), repeats.shape().to_string());
  require_no_trace();
  const Tensor counts = cast(repeats, DType::i64);
  evaluate(counts);
  return to_host<int64_t>(counts);
}

Tensor repeated(const Tensor& x, nb::handle repeats, std::optional<int64_t> axis) {
  const std::vector<int64_t> counts = nb::isinstance<Tensor>(repeats) ? known_counts(nb::cast<const Tensor&>(repeats))
                                                                      : integers("repeat", "repeats", repeats);
  if (counts.size() == 1) return as_result(x, repeat(x, counts[0], axis));
  const Tensor source = axis ? x : flatten(x);
  const int64_t along = axis.value_or(0), length = source.shape()[source.shape().axis("repeat", along)];
  if (std::ssize(counts) != length) throw bad_input("[repeat] {} repeats for {} elements", counts.size(), length);
  std::vector<int32_t> places;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 0) throw bad_input("[repeat] {} times", counts[i]);
    if (counts[i] > INT32_MAX - std::ssize(places)) throw bad_input("[repeat] too many elements");
    places.insert(places.end(), static_cast<size_t>(counts[i]), static_cast<int32_t>(i));
  }
  return take(source, x.device()->upload(DType::i32, Shape{std::ssize(places)}, places.data()), along);
}

Tensor flipped(const Tensor& x, const AxisArgument& axis) { return as_result(x, flip(x, axis.axes)); }
Tensor tiled(const Tensor& x, const Integers& repetitions) { return as_result(x, tile(x, repetitions.values)); }

}  // namespace

void bind_rearranging(nb::module_& m, TensorClass& tensor) {
  tensor
      .def(
          "repeat",
          [](const Tensor& x, const nb::args& by_position, nb::handle repeats, std::optional<int64_t> axis) {
            if (by_position.size() != 0 || repeats.is_none()) {
              throw nb::type_error(
                  "[repeat] say which is meant: repeats=..., as numpy.repeat has it, or tile(...), as PyTorch's "
                  "repeat");
            }
            return repeated(x, repeats, axis);
          },
          nb::arg("by_position"), nb::arg("repeats") = nb::none(), nb::arg("axis") = nb::none(),
          nb::sig("def repeat(self, *, repeats: int | Sequence[int] | Tensor, axis: int | None = None) -> Tensor"),
          "As `gabbro.repeat`; PyTorch's repeat is `tile`.")
      .def("tile", tiled, nb::arg("repetitions"), "As `gabbro.tile`.")
      .def("roll", rolled, nb::arg("shift"), nb::arg("axis") = nb::none(), "As `gabbro.roll`.")
      .def("flip", flipped, nb::arg("axis") = nb::none(), "As `gabbro.flip`.");
  m.def("concat", joined, nb::arg("arrays"), nb::arg("axis") = 0, R"(Concatenates tensors along an axis.

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
  m.def("stack", stack, nb::arg("arrays"), nb::arg("axis") = 0, R"(Stacks tensors along a new axis.

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
  m.def("repeat", repeated, nb::arg("x"), nb::arg("repeats"), nb::arg("axis") = nb::none(),
        nb::sig("def repeat(x: Tensor, repeats: int | Sequence[int] | Tensor, axis: int | None = None) -> Tensor"),
        R"(Each element several times.

Parameters
----------
x : Tensor
    Of any dtype but block formats.
repeats : int, sequence of int, or Tensor of integers
    How many times; of several numbers, one for each element along the axis. A tensor is evaluated.
axis : int, optional
    From -ndim to ndim - 1. None: of `x` made flat.

Raises
------
ValueError
    For an axis that `x` does not have, negative numbers of times, and a number of repeats that does not fit the axis.

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
