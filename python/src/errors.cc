// The library's exception becomes ordinary ones: ValueError, IndexError, OverflowError, MemoryError, RuntimeError, and
// gabbro.DeviceError.
#include "src/base/error.h"

#include "python/src/bind.h"
#include "src/base/input_errors.h"

namespace gabbro::python {
namespace {

nb::handle device_error;  // lives as long as the module

PyObject* class_for(const Error& error) {
  if (dynamic_cast<const OutOfMemory*>(&error) != nullptr) return PyExc_MemoryError;
  if (dynamic_cast<const IndexError*>(&error) != nullptr) return PyExc_IndexError;
  if (dynamic_cast<const OverflowError*>(&error) != nullptr) return PyExc_OverflowError;
  switch (error.code()) {
    case ErrorCode::kBadInput:
      return PyExc_ValueError;
    case ErrorCode::kNoDevice:
      return device_error.ptr();
    case ErrorCode::kInterrupted:
      return PyExc_KeyboardInterrupt;
    case ErrorCode::kFailed:
      break;
  }
  return PyExc_RuntimeError;
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    std::string text = error.what();
    if (!error.hint().empty()) text += "\nhint: " + error.hint();
    PyErr_SetString(class_for(error), text.c_str());
  }
}

}  // namespace

void bind_errors(nb::module_& m) {
  constexpr const char* kDoc =
      "The device that was asked for cannot be used. The text says what is missing, and what to do about it.";
  device_error = PyErr_NewExceptionWithDoc("gabbro.DeviceError", kDoc, PyExc_RuntimeError, nullptr);
  m.attr("DeviceError") = device_error;
  nb::register_exception_translator(translate);
}

}  // namespace gabbro::python
