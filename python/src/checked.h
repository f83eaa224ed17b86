// Objects that are read by hand, where nanobind's own conversion of arguments does not: what does not fit is a
// TypeError that names the function and the argument.
#pragma once

#include "python/src/bind.h"

namespace gabbro::python {

template <class T>
T value_argument(const char* op, const char* argument, nb::handle object) {
  T value;
  if (!nb::try_cast(object, value)) {
    PyErr_Clear();  // a number's own conversion may have failed
    throw nb::type_error(fmt::format("[{}] {} cannot be {}", op, argument, nb::repr(object).c_str()).c_str());
  }
  return value;
}

// All of them tensors.
inline std::vector<Tensor> tensors_argument(const char* op, nb::handle objects) {
  std::vector<Tensor> tensors;
  for (nb::handle object : nb::iter(objects)) {
    if (!nb::isinstance<Tensor>(object))
      throw nb::type_error(fmt::format("[{}] {} is not a tensor", op, nb::repr(object).c_str()).c_str());
    tensors.push_back(nb::cast<const Tensor&>(object));
  }
  return tensors;
}

// Text of a str, in UTF-8. A lone surrogate has none: a UnicodeEncodeError, which is a ValueError.
inline std::string text_of(nb::handle string) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(string.ptr(), &size);
  if (text == nullptr) throw nb::python_error();
  return {text, static_cast<size_t>(size)};
}

// One step into something nested, which may be deep, or contain itself: a RecursionError before the stack ends.
class Deeper {
 public:
  explicit Deeper(const char* doing) {
    if (Py_EnterRecursiveCall(doing) != 0) throw nb::python_error();
  }
  ~Deeper() { Py_LeaveRecursiveCall(); }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;
};

}  // namespace gabbro::python
