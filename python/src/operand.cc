// The operands of functions of two tensors, where one may be a Python number or an array of another library.
#include <nanobind/ndarray.h>

#include <bit>
#include <cstring>
#include <unordered_map>

#include "python/src/bind.h"
#include "python/src/numbers.h"
#include "python/src/views.h"
#include "src/base/half.h"
#include "src/base/input_errors.h"
#include "src/graph/history.h"

namespace gabbro::python {
namespace {

// Recently used numbers as tensors of shape (): a value costs one copy to its device. `weak` instead makes the number a
// part of the graph, so that x * 0.1 and x * 0.2 would need separate plans. Guarded by the GIL; a tensor keeps its
// device open.
struct Known {
  const Device* device;
  DType dtype;
  uint64_t bits;
  bool operator==(const Known&) const = default;
};

struct KnownHash {
  size_t operator()(const Known& n) const {
    return (reinterpret_cast<size_t>(n.device) >> 6) ^ (n.bits * 0x9e3779b97f4a7c15u) ^ static_cast<size_t>(n.dtype);
  }
};

// The element of this dtype, in the low bytes: x86-64 and AArch64 are little-endian.
uint64_t element_bits(const Number& number, DType dtype) {
  const auto single = static_cast<float>(number.real());
  switch (dtype) {
    case DType::f32:
      return std::bit_cast<uint32_t>(single);
    case DType::f64:
      return std::bit_cast<uint64_t>(number.real());
    case DType::f16:
      return float_to_half_bits(single);
    case DType::bf16:
      return float_to_bfloat_bits(single);
    case DType::boolean:
      return number.integer() != 0 ? 1 : 0;
    default:
      return static_cast<uint64_t>(number.integer());
  }
}

Tensor number_tensor(const std::shared_ptr<Device>& device, DType dtype, const Number& number) {
  constexpr size_t kMostNumbers = 512;
  static auto& known = *new std::unordered_map<Known, Tensor, KnownHash>;  // lives as long as the process
  const Known key{device.get(), dtype, element_bits(number, dtype)};
  if (const auto found = known.find(key); found != known.end()) return found->second;
  if (known.size() >= kMostNumbers) known.clear();
  return known[key] = device->upload(dtype, Shape{}, &key.bits);
}

// An int of 64 bits; throws OverflowError for others.
int64_t integer_argument(const char* op, nb::handle object) {
  int overflowed = 0;
  const nb::object index = nb::steal(PyNumber_Index(object.ptr()));
  if (!index.is_valid()) throw nb::python_error();
  const int64_t value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflowed);
  if (overflowed != 0) throw overflow("[{}] {} does not fit in 64 bits", op, nb::str(index).c_str());
  return value;
}

}  // namespace

bool holds(DType dtype, int64_t value) {
  if (is_floating(dtype) || dtype == DType::boolean || dtype == DType::i64) return true;
  const int bits = 8 * static_cast<int>(dtype_bytes(dtype, 1));
  if (dtype == DType::u8) return value >= 0 && value < 256;
  return value >= -(int64_t{1} << (bits - 1)) && value < (int64_t{1} << (bits - 1));
}

const Number& held(const char* op, const Number& number, DType dtype) {
  if (!is_integer(dtype) || number.is_bool()) return number;
  const double real = number.real();
  const bool outside = number.is_real() && !(real >= -0x1p63 && real < 0x1p63);  // NaN as well
  if (outside || !holds(dtype, number.integer())) {
    throw overflow("[{}] {} does not fit in {}", op,
                   number.is_real() ? fmt::format("{}", real) : fmt::format("{}", number.integer()),
                   dtype_public_name(dtype));
  }
  return number;
}

DType dtype_of(const Number& number) {
  if (number.is_bool()) return DType::boolean;
  if (number.is_real()) return kDefaultFloat;
  return DType::i64;
}

Number number_argument(const char* op, nb::handle object) {
  PyObject* const python = object.ptr();
  if (PyFloat_Check(python)) return PyFloat_AsDouble(python);
  if (PyBool_Check(python)) return python == Py_True;
  if (PyIndex_Check(python) && !nb::isinstance<Tensor>(object)) return integer_argument(op, object);
  const double value = PyFloat_AsDouble(python);
  if (value == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw nb::type_error(fmt::format("[{}] {} is not a number", op, nb::repr(object).c_str()).c_str());
  }
  return value;
}

Tensor operand(const char* op, nb::handle object, const Tensor& like) {
  if (nb::isinstance<Tensor>(object)) return nb::cast<const Tensor&>(object);
  if (!is_number(object)) return tensor_of(object, {.device = like.device()});
  const bool real = PyFloat_Check(object.ptr()) || is_floating(like.dtype());
  // An int of more than 64 bits fits no dtype, as one that is too large for the other operand's.
  const Number number = real                         ? Number(PyFloat_AsDouble(object.ptr()))
                        : PyBool_Check(object.ptr()) ? Number(object.ptr() == Py_True)
                                                     : Number(integers(op, "a number", object)[0]);
  if (PyErr_Occurred() != nullptr) throw nb::python_error();  // an int that no double holds
  // An int makes int64 of bool, the default integer of Python's interface.
  const DType dtype =
      like.dtype() == DType::boolean && number.is_integer() ? DType::i64 : promote(like.dtype(), number);
  if (!real && !holds(dtype, number.integer())) {
    throw bad_input("[{}] {} does not fit in {} (the other operand has shape {})", op, nb::str(object).c_str(),
                    dtype_public_name(dtype), like.shape().to_string());
  }
  return number_tensor(like.device(), dtype, number);
}

std::pair<Tensor, Tensor> operands(const char* op, nb::handle a, nb::handle b) {
  if (nb::isinstance<Tensor>(a)) {
    const Tensor& x = nb::cast<const Tensor&>(a);
    return {x, operand(op, b, x)};
  }
  if (nb::isinstance<Tensor>(b) || is_number(a)) {
    const Tensor y = tensor_of(b);
    return {operand(op, a, y), y};
  }
  const Tensor x = tensor_of(a);
  return {x, operand(op, b, x)};
}

void rebind(const char* op, nb::handle object, const Tensor& value) {
  Tensor& target = nb::cast<Tensor&>(object);
  if (!(value.shape() == target.shape()) || value.dtype() != target.dtype()) {
    throw bad_input("[{}] in place: a {} tensor of shape {} cannot hold the result, {} {}", op,
                    dtype_public_name(target.dtype()), target.shape().to_string(), dtype_public_name(value.dtype()),
                    value.shape().to_string());
  }
  const std::shared_ptr<History> history = target.state().history;
  const bool leaf = history != nullptr && is_leaf(target);
  if (leaf && gradients_enabled()) {
    throw bad_input("[{}] in place: {} {} requires a gradient and was not computed; change it under no_grad()", op,
                    dtype_public_name(target.dtype()), target.shape().to_string());
  }
  if (has_relatives(target)) return write_to_relatives(op, target, value);
  // A step of an optimizer keeps parameters as parameters, with their gradients.
  const Tensor before = target;
  target = value;
  if (history == nullptr || &value.state() == &before.state()) return;
  if (leaf) {
    target.state().history = std::make_shared<History>(History{.gradient = history->gradient});
  } else if (!needs_gradient(value)) {
    target = with_history_of(before, value, !gradients_enabled());
  }
}

}  // namespace gabbro::python
