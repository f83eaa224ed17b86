// Arguments that Python gives in several forms.
#include "python/src/bind.h"
#include "src/base/error.h"

namespace gabbro::python {
namespace {

int64_t integer(const char* op, const char* argument, nb::handle object) {
  const nb::object index = nb::steal(PyNumber_Index(object.ptr()));
  int overflow = 0;
  const int64_t value = index.is_valid() ? PyLong_AsLongLongAndOverflow(index.ptr(), &overflow) : 0;
  if (!index.is_valid()) {
    PyErr_Clear();
    const std::string text = fmt::format("[{}] {} wants integers, not {}", op, argument, nb::repr(object).c_str());
    throw nb::type_error(text.c_str());
  }
  if (overflow != 0) throw bad_input("[{}] {}: {} does not fit in 64 bits", op, argument, nb::str(object).c_str());
  return value;
}

}  // namespace

std::vector<int64_t> integers(const char* op, const char* argument, nb::handle object) {
  if (PyIndex_Check(object.ptr())) return {integer(op, argument, object)};
  if (!nb::isinstance<nb::sequence>(object) || nb::isinstance<nb::str>(object)) {
    const std::string text =
        fmt::format("[{}] {} is an integer or a tuple of them, not {}", op, argument, nb::repr(object).c_str());
    throw nb::type_error(text.c_str());
  }
  std::vector<int64_t> values;
  for (nb::handle item : nb::borrow<nb::sequence>(object)) values.push_back(integer(op, argument, item));
  return values;
}

Shape shape_of(const char* op, const std::vector<int64_t>& lengths) {
  try {
    return Shape(lengths);
  } catch (const Error& error) {
    throw bad_input("[{}] {}", op, error.what());
  }
}

Shape shape_argument(const char* op, nb::handle object) { return shape_of(op, integers(op, "shape", object)); }

nb::tuple shape_tuple(const Shape& shape) {
  nb::object tuple = nb::steal(PyTuple_New(shape.rank()));
  for (int axis = 0; axis < shape.rank(); ++axis) PyTuple_SetItem(tuple.ptr(), axis, PyLong_FromLongLong(shape[axis]));
  return nb::borrow<nb::tuple>(tuple);
}

}  // namespace gabbro::python
