// Tensors of given numbers.
#include "python/src/checked.h"
#include "python/src/numbers.h"
#include "python/src/ops.h"

namespace gabbro::python {
namespace {

void bind_filled(nb::module_& m, const char* name, int number, const char* what, const char* shown) {
  m.def(
      name,
      [number, name](const Integers& shape, std::optional<DType> dtype, nb::handle device) {
        return full(device_argument(device), shape_of(name, shape.values), number, dtype.value_or(kDefaultFloat));
      },
      nb::arg("shape"), nb::kw_only(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::sig(fmt::format("def {}(shape: int | Sequence[int], *, dtype: DTypeLike | None = None, "
                          "device: DeviceLike | None = None) -> Tensor",
                          name)
                  .c_str()),
      fmt::format(R"(A tensor of {}.

Parameters
----------
shape : int or tuple of int
dtype : DType, optional
    Any but block formats; without it, float32.
device : str or Device, optional
    Without it, the default.

Raises
------
ValueError
    For a shape with negative lengths, more than six axes or too many elements.

>>> gb.{}(2)
{}
)",
                  what, name, shown)
          .c_str());
  const std::string like = std::string(name) + "_like";
  m.def(
      like.c_str(),
      [number](const Tensor& x, std::optional<DType> dtype, nb::handle device) {
        if (device.is_none()) return full_like(x, number, dtype);
        return full(device_argument(device), x.shape(), number, dtype.value_or(x.dtype()));
      },
      nb::arg("x"), nb::kw_only(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::sig(fmt::format("def {}(x: Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> "
                          "Tensor",
                          like)
                  .c_str()),
      fmt::format(R"(As `{}`, with the shape of `x`, and its dtype and device where no others are named.

>>> gb.{}(gb.tensor([[1, 2]])).shape
(1, 2)
)",
                  name, like)
          .c_str());
}

// A diagonal beyond 64 bits is as far outside as at their end.
int64_t diagonal_argument(nb::handle k) {
  int overflow = 0;
  const nb::object index = nb::steal(PyNumber_Index(k.ptr()));
  if (!index.is_valid()) throw nb::python_error();
  const int64_t value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  return overflow == 0 ? value : overflow > 0 ? INT64_MAX : INT64_MIN;
}

void bind_diagonals(nb::module_& m) {
  const auto diagonal = [&](const char* name, auto function, const char* doc) {
    m.def(
        name,
        [function](int64_t rows, std::optional<int64_t> columns, nb::handle k, std::optional<DType> dtype,
                   nb::handle device) {
          return function(device_argument(device), rows, columns.value_or(rows), diagonal_argument(k),
                          dtype.value_or(kDefaultFloat));
        },
        nb::arg("n_rows"), nb::arg("n_cols") = nb::none(), nb::kw_only(), nb::arg("k") = 0,
        nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
        nb::sig(fmt::format("def {}(n_rows: int, n_cols: int | None = None, *, k: int = 0, "
                            "dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Tensor",
                            name)
                    .c_str()),
        doc);
  };
  diagonal("eye", eye, R"(Ones on the diagonal that begins at column `k`, zeros elsewhere.

Parameters
----------
n_rows, n_cols : int
    Without `n_cols`, a square.
k : int
dtype : DType, optional
    Any but block formats; without it, float32.
device : str or Device, optional
    Without it, the default.

Raises
------
ValueError
    For negative lengths.

>>> gb.eye(2)
tensor([[1., 0.],
        [0., 1.]])
)");
  diagonal("tri", tri, R"(Ones on and below the diagonal that begins at column `k`, zeros above. Arguments as `eye`.

>>> gb.tri(2)
tensor([[1., 0.],
        [1., 1.]])
)");
}

}  // namespace

void bind_creation(nb::module_& m) {
  bind_filled(m, "zeros", 0, "zeros", "tensor([0., 0.])");
  bind_filled(m, "ones", 1, "ones", "tensor([1., 1.])");
  bind_filled(m, "empty", 0, "zeros: nothing is left to chance", "tensor([0., 0.])");
  bind_diagonals(m);
  m.def(
      "full",
      [](const Integers& shape, nb::handle fill_value, std::optional<DType> dtype, nb::handle device) {
        const Number number = number_argument("full", fill_value);
        const DType kind = dtype.value_or(dtype_of(number));
        return full(device_argument(device), shape_of("full", shape.values), held("full", number, kind), kind);
      },
      nb::arg("shape"), nb::arg("fill_value"), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(),
      nb::sig("def full(shape: int | Sequence[int], fill_value: float, *, dtype: DTypeLike | None = None, "
              "device: DeviceLike | None = None) -> Tensor"),
      R"(A tensor of one number everywhere.

Parameters
----------
shape : int or tuple of int
fill_value : number
dtype : DType, optional
    Without it, bool, int32 (int64 for larger integers) or float32, as the number is.
device : str or Device, optional
    Without it, the default.

Raises
------
OverflowError
    For a number that the dtype does not hold.
ValueError
    For a shape with negative lengths, more than six axes or too many elements, and for block formats.

>>> gb.full(2, 7)
tensor([7, 7])
)");
  m.def(
      "full_like",
      [](const Tensor& x, nb::handle fill_value, std::optional<DType> dtype, nb::handle device) {
        const DType kind = dtype.value_or(x.dtype());
        return full(device.is_none() ? x.device() : device_argument(device), x.shape(),
                    held("full_like", number_argument("full_like", fill_value), kind), kind);
      },
      nb::arg("x"), nb::arg("fill_value"), nb::kw_only(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::sig("def full_like(x: Tensor, fill_value: float, *, dtype: DTypeLike | None = None, "
              "device: DeviceLike | None = None) -> Tensor"),
      R"(As `full`, with the shape of `x`, and its dtype and device where no others are named.

>>> gb.full_like(gb.tensor([1.0, 2.0]), 7)
tensor([7., 7.])
)");
  m.def(
      "arange",
      [](nb::handle start, nb::handle stop, nb::handle step, std::optional<DType> dtype, nb::handle device) {
        const Number first = stop.is_none() ? Number(0) : number_argument("arange", start);
        const Number last = number_argument("arange", stop.is_none() ? start : stop);
        const Number by = number_argument("arange", step);
        const bool whole = !first.is_real() && !last.is_real() && !by.is_real();
        return arange(device_argument(device), first, last, by, dtype || !whole ? dtype : DType::i64);
      },
      nb::arg("start"), nb::arg("stop") = nb::none(), nb::arg("step") = 1, nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(),
      nb::sig("def arange(start: float, stop: float | None = None, step: float = 1, *, "
              "dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Tensor"),
      R"(start, start + step, ... before stop; with one number: 0, 1, ... before it.

Parameters
----------
start, stop, step : number
    Any numbers; a step of 0 is refused.
dtype : DType, optional
    Any but bool and block formats; without it int64 where the three are ints, else float32.
device : str or Device, optional
    Without it, the default.

Returns
-------
Tensor
    [count]

Raises
------
OverflowError
    For integers that the dtype does not hold.
ValueError
    For a step of 0, other dtypes, and too many elements.

>>> gb.arange(1, 4)
tensor([1, 2, 3])
)");
  m.def(
      "linspace",
      [](double start, double stop, int64_t num, std::optional<DType> dtype, nb::handle device, bool endpoint) {
        return linspace(device_argument(device), start, stop, num, endpoint, dtype.value_or(kDefaultFloat));
      },
      nb::arg("start"), nb::arg("stop"), nb::arg("num"), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::arg("endpoint") = true,
      nb::sig("def linspace(start: float, stop: float, num: int, *, dtype: DTypeLike | None = None, "
              "device: DeviceLike | None = None, endpoint: bool = True) -> Tensor"),
      R"(Numbers from `start` to `stop` at equal distances.

Parameters
----------
start, stop : float
num : int
    How many.
dtype : DType, optional
    Any but block formats; without it, float32.
device : str or Device, optional
    Without it, the default.
endpoint : bool
    Whether `stop` is the last of them, or would be the one after.

Returns
-------
Tensor
    [num]

Raises
------
ValueError
    For a negative number of them.

>>> gb.linspace(0, 1, 5)
tensor([0.  , 0.25, 0.5 , 0.75, 1.  ])
)");
  m.def(
      "meshgrid",
      [](const nb::args& arrays, const std::string& indexing) {
        if (indexing != "xy" && indexing != "ij")
          throw bad_input("[meshgrid] indexing is 'xy' or 'ij', not '{}'", indexing);
        return meshgrid(tensors_argument("meshgrid", arrays), indexing == "xy");
      },
      nb::arg("arrays"), nb::arg("indexing") = "xy",
      nb::sig("def meshgrid(*arrays: Tensor, indexing: str = 'xy') -> list[Tensor]"),
      R"(Coordinates on the grid of vectors.

Parameters
----------
*arrays : Tensor
    Vectors [n_0], [n_1], ...
indexing : str
    ``"ij"``: tensor i has shape [n_0, n_1, ...] and varies along axis i. ``"xy"``: the first two axes change places.

Raises
------
ValueError
    For tensors with more than one axis, and another word.

>>> x, y = gb.meshgrid(gb.arange(2), gb.arange(3))
>>> x
tensor([[0, 1],
        [0, 1],
        [0, 1]])
)");
}

}  // namespace gabbro::python
