// The operands of functions of two tensors, where one may be a Python number or an array of another library.
#include <nanobind/ndarray.h>

#include <bit>
#include <unordered_map>

#include "python/bind.h"
#include "src/base/error.h"
#include "src/base/half.h"
#include "src/ops/ops.h"

namespace gabbro::python {
namespace {

enum class Kind { kBool, kInteger, kReal };

Kind kind_of(DType dtype) {
  return dtype == DType::boolean ? Kind::kBool : is_floating(dtype) ? Kind::kReal : Kind::kInteger;
}

Kind kind_of(nb::handle number) {
  return PyBool_Check(number.ptr()) ? Kind::kBool : PyLong_Check(number.ptr()) ? Kind::kInteger : Kind::kReal;
}

struct Number {
  const Device* device;
  DType dtype;
  uint64_t bits;
  bool operator==(const Number&) const = default;
};

struct NumberHash {
  size_t operator()(const Number& n) const {
    return (reinterpret_cast<size_t>(n.device) >> 6) ^ (n.bits * 0x9e3779b97f4a7c15u) ^ static_cast<size_t>(n.dtype);
  }
};

// Numbers that were used lately, as tensors: a value costs one copy to its device, and plans do not depend on it.
// Guarded by the GIL; what it holds keeps its device open.
Tensor number_tensor(const std::shared_ptr<Device>& device, DType dtype, double value, int64_t integer) {
  constexpr size_t kMostNumbers = 512;
  static auto& known = *new std::unordered_map<Number, Tensor, NumberHash>;  // lives as long as the process
  const bool real = is_floating(dtype);
  const Number key{device.get(), dtype, real ? std::bit_cast<uint64_t>(value) : static_cast<uint64_t>(integer)};
  if (const auto found = known.find(key); found != known.end()) return found->second;
  if (known.size() >= kMostNumbers) known.clear();
  const int32_t narrow = static_cast<int32_t>(integer);
  const int8_t byte = static_cast<int8_t>(integer);
  const int16_t half_integer = static_cast<int16_t>(integer);
  const float single = static_cast<float>(value);
  const void* data = nullptr;
  uint16_t half = 0;
  switch (dtype) {
    case DType::f32:
      data = &single;
      break;
    case DType::f64:
      data = &value;
      break;
    case DType::f16:
      half = float_to_half_bits(single);
      data = &half;
      break;
    case DType::bf16:
      half = float_to_bfloat_bits(single);
      data = &half;
      break;
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      data = &byte;
      break;
    case DType::i16:
      data = &half_integer;
      break;
    case DType::i32:
      data = &narrow;
      break;
    default:
      data = &integer;
      break;
  }
  return known[key] = device->upload(dtype, Shape{}, data);
}

// A number takes the dtype of the tensor beside it, or where that is of a lower kind, i32 or f32.
DType dtype_beside(nb::handle number, DType dtype) {
  if (kind_of(number) <= kind_of(dtype)) return dtype;
  return kind_of(number) == Kind::kInteger ? DType::i32 : DType::f32;
}

bool holds(DType dtype, int64_t value) {
  const int bits = 8 * dtype_info(dtype).block_bytes;
  if (dtype == DType::boolean) return value == 0 || value == 1;
  if (dtype == DType::u8) return value >= 0 && value <= 255;
  return bits == 64 || (value >= -(int64_t{1} << (bits - 1)) && value < int64_t{1} << (bits - 1));
}

}  // namespace

Tensor operand(const char* op, nb::handle object, const Tensor& like) {
  if (nb::isinstance<Tensor>(object)) return nb::cast<const Tensor&>(object);
  if (!is_number(object)) return tensor_of(object, {.device = like.device()});
  const DType dtype = dtype_beside(object, like.dtype());
  if (is_floating(dtype)) {
    const double value = PyFloat_AsDouble(object.ptr());
    if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    return number_tensor(like.device(), dtype, value, 0);
  }
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
  if (overflow != 0 || !holds(dtype, value)) {
    throw bad_input("[{}] {} does not fit in {} (the other operand has shape {})", op, nb::str(object).c_str(),
                    dtype_public_name(dtype), like.shape().to_string());
  }
  return number_tensor(like.device(), dtype, 0, value);
}

std::pair<Tensor, Tensor> operands(const char* op, nb::handle a, nb::handle b) {
  Tensor x, y;
  if (nb::isinstance<Tensor>(a)) {
    x = nb::cast<const Tensor&>(a);
    y = operand(op, b, x);
  } else if (nb::isinstance<Tensor>(b)) {
    y = nb::cast<const Tensor&>(b);
    x = operand(op, a, y);
  } else if (is_number(b)) {
    x = tensor_of(a);
    y = operand(op, b, x);
  } else {
    y = tensor_of(b);
    x = operand(op, a, y);
  }
  // A number of a higher kind takes the tensor with it.
  if (is_number(b) && x.dtype() != y.dtype()) x = cast(x, y.dtype());
  if (is_number(a) && x.dtype() != y.dtype()) y = cast(y, x.dtype());
  return {x, y};
}

Tensor true_divide(const Tensor& a, const Tensor& b) {
  const auto real = [](const Tensor& x) { return is_floating(x.dtype()) ? x : cast(x, DType::f32); };
  return div(real(a), real(b));
}

}  // namespace gabbro::python
