// Python's operators on tensors.
#include <nanobind/ndarray.h>

#include "python/src/bind.h"
#include "src/base/error.h"
#include "src/ops/ops.h"

namespace gabbro::python {
namespace {

using Unary = Tensor (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);

bool is_operand(nb::handle object) {
  return nb::isinstance<Tensor>(object) || is_number(object) || nb::ndarray_check(object);
}

nb::object not_implemented() { return nb::borrow(Py_NotImplemented); }

template <Binary function>
nb::object forward(const char* op, nb::handle self, nb::handle other) {
  if (!is_operand(other)) return not_implemented();
  const Tensor& x = nb::cast<const Tensor&>(self);
  return nb::cast(function(x, operand(op, other, x)));
}

template <Binary function>
nb::object reflected(const char* op, nb::handle self, nb::handle other) {
  if (!is_operand(other)) return not_implemented();
  const Tensor& x = nb::cast<const Tensor&>(self);
  return nb::cast(function(operand(op, other, x), x));
}

// x += y gives the object x another value. Other objects, and what was computed from x before, keep the old one.
template <Binary function>
nb::object in_place(const char* op, nb::handle self, nb::handle other) {
  if (!is_operand(other)) return not_implemented();
  const Tensor& x = nb::cast<const Tensor&>(self);
  const Tensor result = function(x, operand(op, other, x));
  // As PyTorch and NumPy: a float64 result goes into float32, an integer one into floats, and not the other way.
  const auto kind = [](DType dtype) { return is_floating(dtype) ? 2 : dtype == DType::boolean ? 0 : 1; };
  rebind(op, self, kind(result.dtype()) <= kind(x.dtype()) ? cast(result, x.dtype()) : result);
  return nb::borrow(self);
}

template <Binary function>
void arithmetic(TensorClass& tensor, const char* op, const std::string& name) {
  const auto method = [&](const std::string& prefix, auto&& body) {
    const std::string full = "__" + prefix + name + "__";
    tensor.def(full.c_str(), body, nb::arg().none(),
               nb::sig(("def " + full + "(self, other: Operand, /) -> Tensor").c_str()));
  };
  method("", [op](nb::handle self, nb::handle other) { return forward<function>(op, self, other); });
  method("r", [op](nb::handle self, nb::handle other) { return reflected<function>(op, self, other); });
  method("i", [op](nb::handle self, nb::handle other) { return in_place<function>(op, self, other); });
}

template <Binary function>
void comparison(TensorClass& tensor, const char* op, const char* name) {
  tensor.def(
      name, [op](nb::handle self, nb::handle other) { return forward<function>(op, self, other); }, nb::arg().none(),
      nb::sig(fmt::format("def {}(self, other: Operand, /) -> Tensor", name).c_str()));
}

Tensor positive(const Tensor& x) { return x; }

}  // namespace

void bind_operators(TensorClass& tensor) {
  arithmetic<add>(tensor, "add", "add");
  arithmetic<sub>(tensor, "subtract", "sub");
  arithmetic<mul>(tensor, "multiply", "mul");
  arithmetic<div>(tensor, "divide", "truediv");
  arithmetic<floor_divide>(tensor, "floor_divide", "floordiv");
  arithmetic<remainder>(tensor, "remainder", "mod");
  arithmetic<pow>(tensor, "pow", "pow");
  arithmetic<matmul>(tensor, "matmul", "matmul");
  arithmetic<bitwise_and>(tensor, "bitwise_and", "and");
  arithmetic<bitwise_or>(tensor, "bitwise_or", "or");
  arithmetic<bitwise_xor>(tensor, "bitwise_xor", "xor");
  arithmetic<left_shift>(tensor, "bitwise_left_shift", "lshift");
  arithmetic<right_shift>(tensor, "bitwise_right_shift", "rshift");
  comparison<equal>(tensor, "equal", "__eq__");
  comparison<not_equal>(tensor, "not_equal", "__ne__");
  comparison<less>(tensor, "less", "__lt__");
  comparison<less_equal>(tensor, "less_equal", "__le__");
  comparison<greater>(tensor, "greater", "__gt__");
  comparison<greater_equal>(tensor, "greater_equal", "__ge__");
  tensor.def("__neg__", static_cast<Unary>(neg))
      .def("__pos__", positive)
      .def("__abs__", static_cast<Unary>(abs))
      .def("__invert__", static_cast<Unary>(bitwise_not))
      .def("__hash__", [](nb::handle self) { return reinterpret_cast<intptr_t>(self.ptr()) >> 4; });
}

}  // namespace gabbro::python
