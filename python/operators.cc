// Python's operators on tensors.
#include <nanobind/ndarray.h>

#include "python/bind.h"
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
  const auto [a, b] = operands(op, self, other);
  return nb::cast(function(a, b));
}

template <Binary function>
nb::object reflected(const char* op, nb::handle self, nb::handle other) {
  if (!is_operand(other)) return not_implemented();
  const auto [a, b] = operands(op, other, self);
  return nb::cast(function(a, b));
}

// x += y gives the object x another value. Other objects, and what was computed from x before, keep the old one.
template <Binary function>
nb::object in_place(const char* op, nb::handle self, nb::handle other) {
  if (!is_operand(other)) return not_implemented();
  const auto [a, b] = operands(op, self, other);
  const Tensor result = function(a, b);
  Tensor& target = nb::cast<Tensor&>(self);
  if (!(result.shape() == target.shape()) || result.dtype() != target.dtype()) {
    throw bad_input("[{}] in place: a {} tensor of shape {} cannot hold the result, {} {}", op,
                    dtype_public_name(target.dtype()), target.shape().to_string(), dtype_public_name(result.dtype()),
                    result.shape().to_string());
  }
  target = result;
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

// Of bool: not; of integers: -x - 1, as in two's complement.
Tensor inverted(const Tensor& x) {
  if (x.dtype() == DType::boolean) return logical_not(x);
  if (is_floating(x.dtype()))
    throw bad_input("[invert] does not take {} of shape {}", dtype_name(x.dtype()), x.shape().to_string());
  return sub(neg(x), cast(scalar(x.device(), 1, DType::i32), x.dtype()));
}

}  // namespace

void bind_operators(TensorClass& tensor) {
  arithmetic<add>(tensor, "add", "add");
  arithmetic<sub>(tensor, "subtract", "sub");
  arithmetic<mul>(tensor, "multiply", "mul");
  arithmetic<true_divide>(tensor, "divide", "truediv");
  arithmetic<pow>(tensor, "pow", "pow");
  arithmetic<matmul>(tensor, "matmul", "matmul");
  arithmetic<logical_and>(tensor, "logical_and", "and");
  arithmetic<logical_or>(tensor, "logical_or", "or");
  comparison<equal>(tensor, "equal", "__eq__");
  comparison<not_equal>(tensor, "not_equal", "__ne__");
  comparison<less>(tensor, "less", "__lt__");
  comparison<less_equal>(tensor, "less_equal", "__le__");
  comparison<greater>(tensor, "greater", "__gt__");
  comparison<greater_equal>(tensor, "greater_equal", "__ge__");
  tensor.def("__neg__", static_cast<Unary>(neg))
      .def("__pos__", positive)
      .def("__abs__", static_cast<Unary>(abs))
      .def("__invert__", inverted)
      .def("__hash__", [](nb::handle self) { return reinterpret_cast<intptr_t>(self.ptr()) >> 4; });
}

}  // namespace gabbro::python
