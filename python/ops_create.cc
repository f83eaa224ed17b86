// Tensors that come from no other tensor.
#include <algorithm>
#include <cmath>

#include "python/ops.h"

namespace gabbro::python {

void bind_creation(nb::module_& m) {
  m.def(
      "arange",
      [](double start, const std::optional<double>& stop, double step, std::optional<DType> dtype, nb::handle device) {
        const double first = stop ? start : 0, last = stop.value_or(start);
        if (step == 0) throw bad_input("[arange] a step of 0");
        const double count = std::ceil((last - first) / step);
        if (!(count < 2147483648.0)) throw bad_input("[arange] {} elements", count);
        const bool whole = first == std::floor(first) && step == std::floor(step) && last == std::floor(last);
        return iota(device_argument(device), std::max<int64_t>(0, static_cast<int64_t>(count)),
                    dtype.value_or(whole ? DType::i32 : DType::f32), first, step);
      },
      nb::arg("start"), nb::arg("stop") = nb::none(), nb::arg("step") = 1.0, nb::kw_only(),
      nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::sig("def arange(start: float, stop: float | None = None, step: float = 1, *, "
              "dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Tensor"),
      R"(start, start + step, ... before stop; with one number: 0, 1, ... before it.

Parameters
----------
start, stop, step : float
    Any numbers; a step of 0 is refused.
dtype : DType, optional
    int32 or float32; without it int32 where the three are whole.
device : str or Device, optional
    Without it, the default.

Returns
-------
Tensor
    [count]

Raises
------
ValueError
    For a step of 0, other dtypes, and more than 2³¹ elements.

>>> gb.arange(1, 4)
tensor([1, 2, 3])
)");
  const auto filled = [&](const char* name, double number, const char* shown) {
    m.def(
        name,
        [number, name](const Integers& shape, DType dtype, nb::handle device) {
          const nb::object value = nb::float_(number);
          const Tensor one = tensor_of(value, {.dtype = dtype, .device = device_argument(device)});
          return broadcast_to(one, shape_argument(name, nb::cast(shape.values)));
        },
        nb::arg("shape"), nb::kw_only(), nb::arg("dtype") = DType::f32, nb::arg("device") = nb::none(),
        nb::sig(fmt::format("def {}(shape: int | Sequence[int], *, dtype: DTypeLike = float32, "
                            "device: DeviceLike | None = None) -> Tensor",
                            name)
                    .c_str()),
        fmt::format(R"(A tensor of {}s.

Parameters
----------
shape : int or tuple of int
dtype : DType
    Any.
device : str or Device, optional
    Without it, the default.

Raises
------
ValueError
    For a shape with negative lengths, more than six axes or too many elements.

>>> gb.{}(2)
{}
)",
                    name == std::string("ones") ? "one" : "zero", name, shown)
            .c_str());
  };
  filled("zeros", 0, "tensor([0., 0.])");
  filled("ones", 1, "tensor([1., 1.])");
}

}  // namespace gabbro::python
