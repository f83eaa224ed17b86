// The class Tensor: its attributes, its conversions to Python's numbers, its text.

#include "python/src/bind.h"
#include "python/src/pending.h"
#include "python/src/views.h"
#include "src/base/error.h"
#include "src/ops/ops.h"

namespace gabbro::python {
namespace {

constexpr const char* kDoc = R"(An array of numbers of one dtype on one device.

Operations record what is to be computed; reading a value (`eval`, `item`, `numpy`, printing) computes it. A write
(``x += y``, ``x[i] = y``) is seen by all views of the same elements, and not by what was computed before. Made by
`tensor`, `asarray`, `zeros` and the like.

>>> x = gb.tensor([[1.0, 2.0], [3.0, 4.0]])
>>> x.shape, x.dtype
((2, 2), gabbro.float32)
>>> x @ x + 1
tensor([[ 8., 11.],
        [16., 23.]])
)";

nb::object as_numpy(const Tensor& x) { return numpy_array(x.dtype() == DType::bf16 ? cast(x, DType::f32) : x); }

void require_one(const char* doing, const Tensor& x) {
  if (x.shape().elements() != 1)
    throw bad_input("[{}] a tensor of shape {} is not one number", doing, x.shape().to_string());
}

nb::object item(const Tensor& x) {
  require_one("item", x);
  return as_numpy(x).attr("item")();
}

// NumPy prints the numbers; `prefix` is what stands before them.
std::string numbers(const Tensor& x, const char* prefix) {
  return nb::cast<std::string>(nb::module_::import_("numpy").attr("array2string")(
      as_numpy(x), nb::arg("separator") = ", ", nb::arg("prefix") = prefix));
}

std::string repr(const Tensor& x) {
  const std::string device = x.device()->facts().id;
  std::string facts;
  if (x.shape().elements() == 0) facts += ", shape=" + x.shape().to_string();
  if (x.dtype() != DType::f32 && x.dtype() != DType::i64 && x.dtype() != DType::boolean)
    facts += fmt::format(", dtype={}", dtype_public_name(x.dtype()));
  if (device != "cpu") facts += fmt::format(", device='{}'", device);
  if (is_quantized(x.dtype()) || x.spec().packed)
    return fmt::format("tensor(..., shape={}{})", x.shape().to_string(), facts);
  return fmt::format("tensor({}{})", numbers(x, "tensor("), facts);
}

int64_t length(const Tensor& x) {
  if (x.shape().rank() == 0) throw nb::type_error("len() of a tensor of shape ()");
  return x.shape()[0];
}

nb::object index(const Tensor& x) {
  require_one("index", x);
  if (is_floating(x.dtype()))
    throw nb::type_error(fmt::format("a {} tensor cannot be an index", dtype_public_name(x.dtype())).c_str());
  return nb::steal(PyNumber_Index(item(x).ptr()));
}

}  // namespace

TensorClass bind_tensor(nb::module_& m) {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(tensor_buffer)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(tensor_dealloc())},
                                {0, nullptr}};
  TensorClass tensor(m, "Tensor", nb::type_slots(slots), nb::is_weak_referenceable(), kDoc);
  tensor.def(
      "__init__",
      [](Tensor* self, const nb::args& args) {
        const nb::object made = nb::module_::import_("gabbro.functions.typed_tensors").attr("constructed")(args);
        new (self) Tensor(nb::cast<const Tensor&>(made));
      },
      nb::sig("def __init__(self, *args: Any) -> None"),
      "As torch.Tensor: a float32 tensor of a list, an array or a tensor, or of lengths, with unspecified elements.");
  tensor
      .def_prop_ro(
          "shape", [](const Tensor& x) { return shape_tuple(x.shape()); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "The lengths of the axes.")
      .def_prop_ro(
          "ndim", [](const Tensor& x) { return x.shape().rank(); }, "The number of axes.")
      .def_prop_ro(
          "size", [](const Tensor& x) { return x.shape().elements(); }, "The number of elements.")
      .def_prop_ro(
          "dtype", [](const Tensor& x) { return dtype_object(x.dtype()); }, nb::sig("def dtype(self) -> DType"),
          "The kind of the elements.")
      .def_prop_ro(
          "device", [](const Tensor& x) { return device_object(x.device()); }, nb::sig("def device(self) -> Device"),
          "Where it lives.")
      .def_prop_ro(
          "nbytes", [](const Tensor& x) { return dtype_bytes(x.dtype(), static_cast<size_t>(x.shape().elements())); },
          "The bytes of all elements.")
      .def(
          "to",
          [](const Tensor& x, nb::handle device) {
            return tensor_of(nb::cast(x), {.device = device_argument(device)});
          },
          nb::arg("device"), nb::sig("def to(self, device: DeviceLike) -> Tensor"), nb::call_policy<ViewOfFirst>(),
          R"(The same numbers on another device: itself where it is there already. Evaluates the tensor.

>>> gb.tensor([1.0]).to("cpu").device
gabbro.Device('cpu')
)")
      .def(
          "to_device",
          [](const Tensor& x, nb::handle device, nb::handle) {
            return tensor_of(nb::cast(x), {.device = device_argument(device)});
          },
          nb::arg("device"), nb::kw_only(), nb::arg("stream") = nb::none(),
          nb::sig("def to_device(self, device: DeviceLike, *, stream: Any = None) -> Tensor"),
          nb::call_policy<ViewOfFirst>(), "As `to`.")
      .def(
          "__array_namespace__",
          [](const Tensor&, std::optional<std::string> version) {
            const nb::object names = nb::module_::import_("gabbro.array_api");
            if (version && !nb::cast<bool>(names.attr("VERSIONS").attr("__contains__")(*version)))
              throw bad_input("[__array_namespace__] version {} of the standard is not supported", *version);
            return names;
          },
          nb::kw_only(), nb::arg("api_version") = nb::none(),
          nb::sig("def __array_namespace__(self, *, api_version: str | None = None) -> Any"),
          "The functions of the array API standard, with its meanings: the module `gabbro.array_api`.")
      .def("item", item, nb::sig("def item(self) -> float | int | bool"),
           R"(The number that a tensor of one element holds.

Raises
------
ValueError
    Where there are more elements, or none.

>>> gb.tensor([2.5]).item()
2.5
)")
      .def(
          "tolist", [](const Tensor& x) { return as_numpy(x).attr("tolist")(); }, nb::sig("def tolist(self) -> Any"),
          R"(The elements as nested lists of Python's numbers; of a tensor of shape (), a number.

>>> gb.tensor([[1, 2], [3, 4]]).tolist()
[[1, 2], [3, 4]]
)")
      .def("__repr__", repr)
      .def("__str__", [](const Tensor& x) { return numbers(x, ""); })
      .def("__format__",
           [](const Tensor& x, const std::string& how) {
             if (how.empty()) return nb::str(nb::cast(numbers(x, "")));
             const nb::object text = nb::steal(PyObject_Format(item(x).ptr(), nb::cast(how).ptr()));
             if (!text.is_valid()) throw nb::python_error();
             return nb::str(text);
           })
      .def("__len__", length)
      .def("__bool__",
           [](const Tensor& x) {
             require_one("bool", x);
             return nb::cast<bool>(nb::bool_(item(x)));
           })
      .def(
          "__float__",
          [](const Tensor& x) {
            require_one("float", x);
            return nb::float_(item(x));
          },
          nb::sig("def __float__(self) -> float"))
      .def(
          "__complex__",
          [](const Tensor& x) {
            require_one("complex", x);
            return nb::steal(PyComplex_FromDoubles(PyFloat_AsDouble(item(x).ptr()), 0));
          },
          nb::sig("def __complex__(self) -> complex"))
      .def(
          "__int__",
          [](const Tensor& x) {
            require_one("int", x);
            return nb::int_(item(x));
          },
          nb::sig("def __int__(self) -> int"))
      .def("__index__", index, nb::sig("def __index__(self) -> int"));
  // NumPy leaves operators with a tensor to the tensor.
  tensor.attr("__array_ufunc__") = nb::none();
  return tensor;
}

}  // namespace gabbro::python
