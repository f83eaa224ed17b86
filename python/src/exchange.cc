// Numbers in and out: Python scalars and lists, NumPy, DLPack, the buffer protocol.
#include <nanobind/ndarray.h>

#include <algorithm>
#include <array>

#include "python/src/bind.h"
#include "python/src/checked.h"
#include "python/src/fork.h"
#include "python/src/host_array.h"
#include "python/src/numbers.h"
#include "python/src/views.h"
#include "src/backend/registry.h"
#include "src/base/input_errors.h"
#include "src/graph/history.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"

namespace gabbro::python {
namespace {

// A copy in the host's memory of a tensor with a value.
Tensor on_host(const Tensor& x) {
  static const std::shared_ptr<Device> host = open_device("cpu");
  return to_device(x, host);
}

template <class T>
nb::bytes bytes_of(const std::vector<T>& values) {
  return nb::bytes(values.data(), values.size() * sizeof(T));
}

nb::module_ numpy() { return nb::module_::import_("numpy"); }

bool is_list(nb::handle object) { return nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object); }

// Whether a number is a float, or one in nested lists is.
bool has_float(nb::handle object) {
  if (!is_list(object)) return !PyLong_Check(object.ptr());
  const Deeper step(" in nested lists");
  for (nb::handle item : nb::borrow<nb::sequence>(object)) {
    if (has_float(item)) return true;
  }
  return false;
}

// Throws OverflowError for integers that the dtype (int64) does not hold. NumPy makes floats of some lists of them.
void require_held(nb::handle list, nb::handle array, const std::string& kind, std::optional<DType> wanted) {
  if (nb::cast<int64_t>(array.attr("size")) == 0) return;
  if (kind == "f" && (!wanted || is_integer(*wanted))) {
    const bool large = nb::cast<double>(nb::float_(nb::object(array.attr("max")()))) >= 0x1p63 ||
                       nb::cast<double>(nb::float_(nb::object(array.attr("min")()))) < -0x1p63;
    if (large && !has_float(list)) throw overflow("[tensor] an integer of the list does not fit in int64");
  }
  const bool any_size = kind == "O" && PyLong_Check(nb::object(array.attr("max")()).ptr());
  if (kind != "i" && kind != "u" && !any_size) return;
  const DType dtype = wanted.value_or(DType::i64);
  if (!is_integer(dtype)) return;
  for (const char* extreme : {"min", "max"}) {
    const nb::object number = nb::int_(nb::object(array.attr(extreme)()));
    int overflowed = 0;
    const int64_t value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflowed);
    if (overflowed != 0 || !holds(dtype, value))
      throw overflow("[tensor] {} does not fit in {}", nb::str(number).c_str(), dtype_public_name(dtype));
  }
}

// Numbers and lists go through NumPy: its float64 becomes float32, but where float64 is wanted. Integers are int64.
nb::object array_of_list(nb::handle list, std::optional<DType> wanted) {
  nb::object array = numpy().attr("asarray")(list);
  const std::string kind = nb::cast<std::string>(array.attr("dtype").attr("kind"));
  require_held(list, array, kind, wanted);
  if (kind == "f" && nb::cast<int64_t>(array.attr("dtype").attr("itemsize")) == 8)
    return wanted == DType::f64 ? array : array.attr("astype")("float32");
  return array;
}

// The elements in row-major order, after evaluation.
nb::bytes contents(const Tensor& x) {
  evaluate(x);
  switch (x.spec().packed ? 0 : dtype_info(x.dtype()).block_bytes) {
    case 1:
      return bytes_of(to_host<uint8_t>(x));
    case 2:
      return bytes_of(to_host<uint16_t>(x));
    case 4:
      return bytes_of(to_host<int32_t>(x));
    case 8:
      return bytes_of(to_host<int64_t>(x));
    default:
      throw bad_input("[pickle] a {} matrix {} is not read back", dtype_name(x.dtype()), x.shape().to_string());
  }
}

// The tensor of a pickle (gabbro/_unpickle.py).
nb::tuple pickled(const Tensor& x) {
  return nb::make_tuple(contents(x), dtype_public_name(x.dtype()), shape_tuple(x.shape()), x.device()->facts().id,
                        needs_gradient(x));
}

// In separate memory, which the host sees.
Tensor copied_to_host(const Tensor& x) {
  const nb::bytes data = contents(x);
  return open_device("cpu")->upload(x.dtype(), x.shape(), data.data());
}

// As an array of another library, which keeps the tensor's memory alive. Read-only, since tensors do not change.
template <class Framework>
nb::object exported(const char* doing, const Tensor& x) {
  const auto type = dlpack_type(x.dtype());
  if (!type || x.spec().packed)
    throw bad_input("[{}] a {} matrix {} has no separate elements", doing, dtype_name(x.dtype()),
                    x.shape().to_string());
  evaluate(x);
  Tensor host = x;
  if (!x.device()->host_accessible()) host = on_host(x);
  const TensorState& state = host.state();
  std::array<size_t, Shape::kMaxRank> shape{};
  std::ranges::copy(state.spec.shape.lengths(), shape.begin());
  const auto* data = static_cast<const std::byte*>(state.storage.get()) +
                     dtype_bytes(x.dtype(), static_cast<size_t>(state.layout.offset));
  const nb::capsule owner(new Tensor(host), [](void* tensor) noexcept { delete static_cast<Tensor*>(tensor); });
  const nb::ndarray<Framework, nb::ro, nb::device::cpu> array(
      data, static_cast<size_t>(state.spec.shape.rank()), shape.data(), owner, state.layout.strides.data(),
      {.code = static_cast<uint8_t>(type->code), .bits = type->bits, .lanes = 1});
  return nb::cast(array);
}

bool contains_tensor(nb::handle object) {
  if (nb::isinstance<Tensor>(object)) return true;
  if (!is_list(object)) return false;
  const Deeper step(" in nested lists");
  for (nb::handle item : nb::borrow<nb::sequence>(object)) {
    if (contains_tensor(item)) return true;
  }
  return false;
}

// Nested lists of numbers and tensors of shape (): the tensors stay connected to their computation.
Tensor stacked(nb::handle list, const Wanted& wanted) {
  const Deeper step(" in nested lists");
  std::vector<Tensor> items;
  for (nb::handle item : nb::borrow<nb::sequence>(list)) {
    items.push_back(is_list(item) ? stacked(item, wanted) : tensor_of(item, wanted));
    if (!is_list(item) && items.back().shape().rank() > 0)
      throw nb::type_error("[tensor] a list of tensors that have axes is not a tensor: use gabbro.stack");
  }
  if (items.empty()) return tensor_of(list, wanted);
  return stack(items);
}

// The tensor as Python's object; where it has the memory of this array, writes to it go there.
nb::object linked_to_array(nb::handle array, const Tensor& x) {
  nb::object result = nb::cast(x);
  HostArray host;
  if (nb::isinstance<Tensor>(array) || !x.has_value() || !nb::try_cast(array, host, false) ||
      host.data() != x.state().storage.get())
    return result;
  nb::ndarray<nb::device::cpu> writable;
  link_memory(result, nb::try_cast(array, writable, false));
  return result;
}

}  // namespace

Tensor tensor_of(nb::handle object, const Wanted& wanted) {
  Tensor tensor;
  if (nb::isinstance<Tensor>(object)) {
    tensor = nb::cast<const Tensor&>(object);
    if (wanted.device != nullptr && tensor.device() != wanted.device) {
      evaluate(tensor);
      tensor = to_device(tensor, wanted.device);
    }
  } else {
    nb::object array = nb::borrow(object);
    if (is_list(object) || is_number(object)) {
      if (contains_tensor(object)) return stacked(object, wanted);
      array = array_of_list(object, wanted.dtype);
    } else if (!nb::ndarray_check(object) && nb::hasattr(object, "__array__")) {
      array = numpy().attr("asarray")(object);
    }
    HostArray host;
    if (!nb::try_cast(array, host, false))
      throw nb::type_error(fmt::format("{} cannot be made a tensor", nb::type_name(object.type()).c_str()).c_str());
    tensor = from_array(host, wanted);
  }
  if (wanted.copy == Copy::kNever && wanted.dtype && tensor.dtype() != *wanted.dtype)
    throw bad_input("[asarray] {} of shape {} does not become {} without a copy", dtype_public_name(tensor.dtype()),
                    tensor.shape().to_string(), dtype_public_name(*wanted.dtype));
  return wanted.dtype ? cast(tensor, *wanted.dtype) : tensor;
}

// Whether it is a tensor that is as wanted.
bool is_wanted(nb::handle object, const Wanted& wanted) {
  if (!nb::isinstance<Tensor>(object) || wanted.copy == Copy::kAlways) return false;
  const Tensor& tensor = nb::cast<const Tensor&>(object);
  return (!wanted.dtype || *wanted.dtype == tensor.dtype()) &&
         (wanted.device == nullptr || wanted.device == tensor.device());
}

nb::object numpy_array(const Tensor& x) {
  if (x.dtype() == DType::bf16)
    throw nb::type_error("[numpy] NumPy has no bfloat16: use astype(gabbro.float32) first, or DLPack");
  return exported<nb::numpy>("numpy", x);
}

void bind_exchange(nb::module_& m, TensorClass& tensor) {
  m.def(
      "tensor",
      [](nb::handle object, nb::handle dtype, nb::handle device) {
        Wanted wanted{.dtype = optional_dtype(dtype), .copy = Copy::kAlways};
        if (!device.is_none()) wanted.device = device_argument(device);
        return tensor_of(object, wanted);
      },
      nb::arg("object"), nb::kw_only(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::sig("def tensor(object: ArrayLike, *, dtype: DTypeLike | None = None, "
              "device: DeviceLike | None = None) -> Tensor"),
      R"(A tensor with the numbers of `object`, which are copied.

Parameters
----------
object : number, nested lists of numbers, NumPy array, Tensor, or anything with DLPack or the buffer protocol
    Python's floats become float32, its ints int32 (int64 where one does not fit), its bools bool.
dtype : DType, optional
    Of the result; without it, that of `object`.
device : str or Device, optional
    Where it lives; without it, the default (`set_device`).

Raises
------
OverflowError
    For a Python int that the dtype does not hold: without a dtype, one beyond int64.
TypeError
    Where `object` does not hold numbers of a dtype that there is.

>>> gb.tensor([[1, 2], [3, 4]])
tensor([[1, 2],
        [3, 4]])
)");
  m.def(
      "asarray",
      [](nb::handle object, nb::handle dtype, nb::handle device, std::optional<bool> copy) {
        Wanted wanted{.dtype = optional_dtype(dtype)};
        if (copy) wanted.copy = *copy ? Copy::kAlways : Copy::kNever;
        if (!device.is_none()) wanted.device = device_argument(device);
        return is_wanted(object, wanted) ? nb::borrow(object) : linked_to_array(object, tensor_of(object, wanted));
      },
      nb::arg("object"), nb::kw_only(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::arg("copy") = nb::none(),
      nb::sig("def asarray(object: ArrayLike, *, dtype: DTypeLike | None = None, "
              "device: DeviceLike | None = None, copy: bool | None = None) -> Tensor"),
      R"(As `tensor`, but where the device works in host memory the array's own memory is used.

A tensor of this dtype on this device is returned itself. A write to the tensor is seen by the array. Do not write to
an array before what depends on the result was evaluated. ``copy=True`` always copies, and ``copy=False`` never does.

Raises
------
ValueError
    With ``copy=False``, where a copy is needed.

>>> import numpy
>>> gb.asarray(numpy.eye(2, dtype="float32")).sum()
tensor(2.)
)");
  m.def(
      "from_dlpack",
      [](nb::handle object, nb::handle device, std::optional<bool> copy) {
        Wanted wanted;
        if (copy) wanted.copy = *copy ? Copy::kAlways : Copy::kNever;
        if (!device.is_none()) wanted.device = device_argument(device);
        return linked_to_array(object, tensor_of(object, wanted));
      },
      nb::arg("object"), nb::kw_only(), nb::arg("device") = nb::none(), nb::arg("copy") = nb::none(),
      nb::sig("def from_dlpack(object: SupportsDLPack, *, device: DeviceLike | None = None, "
              "copy: bool | None = None) -> Tensor"),
      R"(A tensor over the memory of an array in the host's memory, of PyTorch, NumPy or another library.

It is not copied where the device works in host memory: see `asarray` for what follows from that.

>>> import numpy
>>> gb.from_dlpack(numpy.arange(3, dtype="float32"))
tensor([0., 1., 2.])
)");

  tensor
      .def("numpy", numpy_array, nb::sig("def numpy(self) -> NumPyArray"),
           R"(The elements as a NumPy array, after evaluation.

Where the host sees the device's memory the array shows that memory, and is read-only; elsewhere it is a copy.

>>> gb.tensor([1.0, 2.0]).numpy()
array([1., 2.], dtype=float32)
)")
      .def(
          "__array__",
          [](const Tensor& x, nb::handle dtype, nb::handle copy) {
            nb::object array = numpy_array(x);
            if (!dtype.is_none()) array = array.attr("astype")(dtype, nb::arg("copy") = false);
            return !copy.is_none() && value_argument<bool>("__array__", "copy", copy) ? array.attr("copy")() : array;
          },
          nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none(),
          nb::sig("def __array__(self, dtype: Any = None, copy: bool | None = None) -> NumPyArray"))
      .def(
          "__dlpack__",
          [](const Tensor& x, nb::kwargs options) {
            Tensor source = x;
            if (options.contains("copy")) {  // None is for nanobind; it refuses to copy
              const nb::object copy = nb::borrow(options["copy"]);
              if (!copy.is_none() && value_argument<bool>("__dlpack__", "copy", copy)) source = copied_to_host(x);
              options["copy"] = nb::none();
            }
            return exported<nb::array_api>("__dlpack__", source).attr("__dlpack__")(**options);
          },
          nb::sig("def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None, "
                  "dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any"))
      .def(
          "__dlpack_device__", [](const Tensor& x) { return x.defined() ? nb::make_tuple(1, 0) : nb::make_tuple(); },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def(
          "__reduce__",
          [](const Tensor& x) {
            return nb::make_tuple(nb::module_::import_("gabbro._unpickle").attr("tensor"), pickled(x));
          },
          nb::sig("def __reduce__(self) -> tuple[Any, ...]"));
  m.def(
      "_copied",
      [](const Tensor& x) {
        const nb::bytes data = contents(x);
        return x.device()->upload(x.dtype(), x.shape(), data.data());
      },
      "The same numbers in separate memory, without a history.");
  m.def("_pickled", pickled, nb::sig("def _pickled(x: Tensor, /) -> tuple[Any, ...]"));
  m.def(
      "_unpickled",
      [](const nb::bytes& data, nb::handle dtype, nb::handle shape, nb::handle device) {
        const Shape lengths = shape_argument("unpickle", shape);
        const DType kind = dtype_argument(dtype);
        if (!dlpack_type(kind) || data.size() != static_cast<size_t>(lengths.elements()) * dtype_info(kind).block_bytes)
          throw bad_input("[unpickle] {} bytes are no {} tensor of shape {}", data.size(), dtype_public_name(kind),
                          lengths.to_string());
        return device_argument(device)->upload(kind, lengths, data.data());
      },
      nb::sig("def _unpickled(data: bytes, dtype: str, shape: tuple[int, ...], device: str) -> Tensor"));
}

int tensor_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  view->obj = nullptr;
  try {
    const nb::object array = exported<nb::array_api>("buffer", nb::cast<const Tensor&>(nb::handle(self)));
    return PyObject_GetBuffer(array.ptr(), view, flags);
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_BufferError, error.what());
  }
  return -1;
}

}  // namespace gabbro::python
