// Dtypes: gb.float32 and the others, one object each.
#include <array>

#include "python/src/bind.h"
#include "python/src/checked.h"
#include "src/base/error.h"

namespace gabbro::python {
namespace {

struct DTypeObject {
  DType value;
};

constexpr int kPlain = static_cast<int>(DType::boolean) + 1;
constexpr std::array<const char*, kPlain> kPublicNames = {"float32", "float16", "bfloat16", "float64", "int8",
                                                          "uint8",   "int16",   "int32",    "int64",   "bool"};

// The objects; they live as long as the process.
std::array<PyObject*, kDTypeCount> objects{};

std::optional<DType> by_name(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (name == dtype_public_name(dtype) || name == dtype_name(dtype)) return dtype;
  }
  return std::nullopt;
}

// The name of a numpy.dtype, or of a class like numpy.float32.
std::optional<DType> by_numpy_name(nb::handle object) {
  for (const char* attribute : {"name", "__name__"}) {
    if (!nb::hasattr(object, attribute)) continue;
    const nb::object name = object.attr(attribute);
    if (nb::isinstance<nb::str>(name)) return by_name(text_of(name));
  }
  return std::nullopt;
}

}  // namespace

const char* dtype_public_name(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  return index < kPublicNames.size() ? kPublicNames[index] : dtype_name(dtype).data();
}

nb::object dtype_object(DType dtype) { return nb::borrow(objects[static_cast<size_t>(dtype)]); }

DType dtype_argument(nb::handle object) {
  if (nb::isinstance<DTypeObject>(object)) return nb::cast<const DTypeObject&>(object).value;
  std::optional<DType> dtype;
  if (nb::isinstance<nb::str>(object)) {
    dtype = by_name(text_of(object));
  } else if (object.is(reinterpret_cast<PyObject*>(&PyFloat_Type))) {
    dtype = DType::f32;
  } else if (object.is(reinterpret_cast<PyObject*>(&PyLong_Type))) {
    dtype = DType::i64;
  } else if (object.is(reinterpret_cast<PyObject*>(&PyBool_Type))) {
    dtype = DType::boolean;
  } else {
    dtype = by_numpy_name(object);
  }
  if (dtype) return *dtype;
  throw nb::type_error(fmt::format("{} is not a dtype of Gabbro", nb::repr(object).c_str()).c_str());
}

std::optional<DType> optional_dtype(nb::handle object) {
  if (object.is_none()) return std::nullopt;
  return dtype_argument(object);
}

void bind_dtypes(nb::module_& m) {
  nb::class_<DTypeObject>(m, "DType", R"(The kind of a tensor's elements, such as ``gabbro.float32``.

There is one object for each kind. Functions that take a dtype also take its name, a NumPy dtype, or ``float``
(float32), ``int`` (int64) and ``bool``.

>>> gb.float16.itemsize
2
>>> gb.float16 == "float16"
True
)")
      .def_prop_ro(
          "name", [](const DTypeObject& d) { return dtype_public_name(d.value); }, "The name, as text.")
      .def_prop_ro(
          "itemsize", [](const DTypeObject& d) { return dtype_info(d.value).block_bytes; },
          "Bytes of an element; of a block format, of a block.")
      .def_prop_ro(
          "is_floating_point", [](const DTypeObject& d) { return is_floating(d.value); },
          "Whether the elements are real numbers.")
      .def("__repr__", [](const DTypeObject& d) { return fmt::format("gabbro.{}", dtype_public_name(d.value)); })
      .def("__str__", [](const DTypeObject& d) { return dtype_public_name(d.value); })
      .def("__hash__", [](const DTypeObject& d) { return static_cast<int>(d.value); })
      .def(
          "__eq__",
          [](const DTypeObject& d, nb::handle other) {
            if (nb::isinstance<DTypeObject>(other)) return nb::cast<const DTypeObject&>(other).value == d.value;
            try {
              return dtype_argument(other) == d.value;
            } catch (const nb::builtin_exception&) {
              return false;
            }
          },
          nb::arg().none(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__reduce__", [](const DTypeObject& d) {
        return nb::make_tuple(nb::module_::import_("gabbro._unpickle").attr("dtype"),
                              nb::make_tuple(dtype_public_name(d.value)));
      });
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    objects[static_cast<size_t>(i)] = nb::cast(DTypeObject{dtype}).release().ptr();
    // In this module's stubs `bool` has to stay Python's; gabbro/__init__.py gives the dtype that name.
    m.attr(dtype == DType::boolean ? "bool_" : dtype_public_name(dtype)) = dtype_object(dtype);
  }
  m.def(
      "_dtype", [](nb::handle object) { return dtype_object(dtype_argument(object)); },
      nb::sig("def _dtype(object: object, /) -> DType"));
  m.def(
      "_promote",
      [](nb::handle a, nb::handle b) {
        const DType x = dtype_argument(a), y = dtype_argument(b);
        if (is_quantized(x) || is_quantized(y))
          throw bad_input("[result_type] {} and {} do not meet", dtype_public_name(x), dtype_public_name(y));
        return dtype_object(promote(x, y));
      },
      nb::sig("def _promote(a: DTypeLike, b: DTypeLike, /) -> DType"));
  m.def(
      "_promote_number",
      [](nb::handle dtype, nb::handle number) {
        return dtype_object(promote(dtype_argument(dtype), number_argument("result_type", number)));
      },
      nb::sig("def _promote_number(dtype: DTypeLike, number: float, /) -> DType"));
}

}  // namespace gabbro::python
