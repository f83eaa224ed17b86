// clamp, where and astype: functions of several tensors, element by element.
#include "python/src/ops.h"
#include "src/graph/history.h"
#include "src/ops/promotion.h"

namespace gabbro::python {
namespace {

// Bounds that are numbers: x has no gradient at them.
Tensor between(const Tensor& x, nb::handle min, nb::handle max) {
  const auto number = [](nb::handle bound) { return nb::cast<double>(nb::float_(bound)); };
  if (max.is_none()) {
    const Tensor low = weak(x, number(min));
    return where(less_equal(x, low), low, x);
  }
  if (min.is_none()) {
    const Tensor high = weak(x, number(max));
    return where(greater_equal(x, high), high, x);
  }
  return clamp(x, number(min), number(max));
}

Tensor clamped(const Tensor& x, nb::handle min, nb::handle max) {
  const auto given = [](nb::handle bound) { return bound.is_none() || is_number(bound); };
  const bool some = !min.is_none() || !max.is_none();
  if (some && given(min) && given(max) && needs_gradient(x)) return between(x, min, max);
  Tensor y = x;
  if (max.is_none() && !min.is_none()) y = maximum(x, operand("clip", min, x));
  if (min.is_none() && !max.is_none()) y = minimum(x, operand("clip", max, x));
  if (!min.is_none() && !max.is_none()) y = clamp(x, operand("clip", min, x), operand("clip", max, x));
  return cast(y, x.dtype());
}

Tensor chosen(const Tensor& condition, nb::handle a, nb::handle b) {
  if (!is_number(a) || !is_number(b)) {
    const auto [x, y] = operands("where", a, b);
    return where(condition, x, y);
  }
  return where(condition, tensor_of(a, {.device = condition.device()}), tensor_of(b, {.device = condition.device()}));
}

Tensor converted(const Tensor& x, nb::handle dtype, bool, nb::handle device) {
  const Tensor y = cast(x, dtype_argument(dtype));
  return device.is_none() ? y : tensor_of(nb::cast(y), {.device = device_argument(device)});
}

}  // namespace

void bind_choosing(nb::module_& m, TensorClass& tensor) {
  m.def("clip", clamped, nb::arg("x"), nb::arg("min") = nb::none(), nb::arg("max") = nb::none(),
        nb::sig("def clip(x: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor"),
        R"(min(max(x, low), high), element by element: so the upper bound where the bounds cross. A NaN stays one.

Parameters
----------
x : Tensor
    Of any dtype but block formats.
min, max : Tensor or number, optional
    The bounds, broadcast against `x`.

Returns
-------
Tensor
    Of the broadcast shape, and the dtype of `x`.

Raises
------
ValueError
    For other dtypes, and shapes that cannot be broadcast.

>>> gb.clip(gb.tensor([-1.0, 0.5, 2.0]), 0, 1)
tensor([0. , 0.5, 1. ])
)");
  m.attr("clamp") = m.attr("clip");
  for (const char* name : {"clip", "clamp"}) {
    tensor.def(
        name, clamped, nb::arg("min") = nb::none(), nb::arg("max") = nb::none(),
        nb::sig(fmt::format("def {}(self, min: Operand | None = None, max: Operand | None = None) -> Tensor", name)
                    .c_str()),
        "As `gabbro.clip`.");
  }

  m.def("where", chosen, nb::arg("condition"), nb::arg("a"), nb::arg("b"),
        nb::sig("def where(condition: Tensor, a: Operand, b: Operand) -> Tensor"),
        R"(Elements of `a` where the condition is true, of `b` elsewhere.

Parameters
----------
condition : Tensor
    Of bool.
a, b : Tensor or number
    All three are broadcast.

Returns
-------
Tensor
    Of the broadcast shape, and the dtype in which `a` and `b` meet (`result_type`).

Raises
------
ValueError
    For other conditions, block formats, and shapes that cannot be broadcast.

>>> x = gb.tensor([1.0, -2.0])
>>> gb.where(x > 0, x, 0)
tensor([1., 0.])
)");

  m.def("astype", converted, nb::arg("x"), nb::arg("dtype"), nb::kw_only(), nb::arg("copy") = true,
        nb::arg("device") = nb::none(),
        nb::sig("def astype(x: Tensor, dtype: DTypeLike, *, copy: bool = True, device: DeviceLike | None = None) -> "
                "Tensor"),
        R"(The same numbers in another dtype.

Floats become integers by truncation, held within their range (NaN: 0), and float16 and bfloat16 by rounding to nearest even.

Parameters
----------
x : Tensor
    Of any dtype but block formats.
dtype : DType
    Any but block formats.
copy : bool
    Makes no difference: tensors do not change.
device : str or Device, optional
    Where the result lives; without it, where `x` does.

Raises
------
TypeError
    If an argument is not a dtype.
ValueError
    For block formats.

>>> gb.astype(gb.tensor([1.5, -1.5]), "int64")
tensor([ 1, -1])
)");
  m.attr("cast") = m.attr("astype");
  tensor.def("astype", converted, nb::arg("dtype"), nb::kw_only(), nb::arg("copy") = true,
             nb::arg("device") = nb::none(),
             nb::sig("def astype(self, dtype: DTypeLike, *, copy: bool = True, device: DeviceLike | None = None) -> "
                     "Tensor"),
             R"(The same numbers in another dtype: as `gabbro.astype`.

>>> gb.tensor([1.5, -1.5]).astype(gb.int64)
tensor([ 1, -1])
)");
}

}  // namespace gabbro::python
