// Functions of two tensors that broadcast.
#include "python/src/ops.h"

namespace gabbro::python {
namespace {

using Binary = Tensor (*)(const Tensor&, const Tensor&);

// Operand and result dtypes of a function.
enum class Kind { kAny, kNumber, kFraction, kBits, kShift, kTest, kTruth };

struct Dtypes {
  const char* taken;
  const char* given;
};

constexpr const char* kPromoted = "the dtype in which both meet (`result_type`)";

Dtypes dtypes_of(Kind kind) {
  switch (kind) {
    case Kind::kAny:
      return {"any dtype but block formats", kPromoted};
    case Kind::kNumber:
      return {"any dtype but block formats, not both of bool", kPromoted};
    case Kind::kFraction:
      return {"any dtype but block formats",
              "the dtype in which both meet, or float32 where that is an integer or bool"};
    case Kind::kBits:
      return {"integers or bool", kPromoted};
    case Kind::kShift:
      return {"integers", kPromoted};
    case Kind::kTest:
      return {"any dtype but block formats", "bool"};
    case Kind::kTruth:
      return {"any dtype but block formats; what is not zero is true", "bool"};
  }
  return {};
}

struct Function {
  const char* name;
  Binary function;
  Kind kind;
  const char* what;  // a sentence
  const char* a;     // of the example
  const char* b;
  const char* shown;
};

constexpr Function kFunctions[] = {
    {"add", add, Kind::kAny, "a + b, element by element; of bool, logical_or.", "[1.0, 2.0]", "3", "tensor([4., 5.])"},
    {"subtract", sub, Kind::kNumber, "a - b, element by element.", "[1.0, 2.0]", "3", "tensor([-2., -1.])"},
    {"multiply", mul, Kind::kAny, "a · b, element by element; of bool, logical_and.", "[1.0, 2.0]", "3",
     "tensor([3., 6.])"},
    {"divide", div, Kind::kFraction, "a / b, element by element.", "[1, 2]", "2", "tensor([0.5, 1. ])"},
    {"floor_divide", floor_divide, Kind::kNumber, "a / b rounded down, element by element; of integers by zero: 0.",
     "[7, -7]", "2", "tensor([ 3, -4])"},
    {"trunc_divide", trunc_divide, Kind::kNumber,
     "a / b rounded toward zero, element by element; of integers by zero: 0.", "[7, -7]", "2", "tensor([ 3, -3])"},
    {"remainder", remainder, Kind::kNumber,
     "What floor_divide leaves of a, with the sign of b, element by element; of integers by zero: 0.", "[7, -7]", "4",
     "tensor([3, 1])"},
    {"pow", pow, Kind::kNumber,
     "a to the power b, element by element. Of integers with a negative power: 0, but for ±1.", "[1.0, 4.0]", "2",
     "tensor([ 1., 16.])"},
    {"maximum", maximum, Kind::kAny, "The larger of a and b, element by element; a NaN stays one.", "[1.0, 4.0]", "3",
     "tensor([3., 4.])"},
    {"minimum", minimum, Kind::kAny, "The smaller of a and b, element by element; a NaN stays one.", "[1.0, 4.0]", "3",
     "tensor([1., 3.])"},
    {"atan2", atan2, Kind::kFraction, "The angle of the point (b, a), in radians, element by element.", "[0.0, 1.0]",
     "0", "tensor([0.       , 1.5707964])"},
    {"hypot", hypot, Kind::kFraction, "sqrt(a² + b²), element by element.", "[3.0, 0.0]", "4", "tensor([5., 4.])"},
    {"equal", equal, Kind::kTest, "Whether a is b, element by element.", "[1, 2, 3]", "2",
     "tensor([False,  True, False])"},
    {"not_equal", not_equal, Kind::kTest, "Whether a is not b, element by element.", "[1, 2, 3]", "2",
     "tensor([ True, False,  True])"},
    {"less", less, Kind::kTest, "Whether a < b, element by element.", "[1, 2, 3]", "2",
     "tensor([ True, False, False])"},
    {"less_equal", less_equal, Kind::kTest, "Whether a <= b, element by element.", "[1, 2, 3]", "2",
     "tensor([ True,  True, False])"},
    {"greater", greater, Kind::kTest, "Whether a > b, element by element.", "[1, 2, 3]", "2",
     "tensor([False, False,  True])"},
    {"greater_equal", greater_equal, Kind::kTest, "Whether a >= b, element by element.", "[1, 2, 3]", "2",
     "tensor([False,  True,  True])"},
    {"bitwise_and", bitwise_and, Kind::kBits, "The bits that both have, element by element.", "[5, 6]", "4",
     "tensor([4, 4])"},
    {"bitwise_or", bitwise_or, Kind::kBits, "The bits that one of the two has, element by element.", "[5, 6]", "1",
     "tensor([5, 7])"},
    {"bitwise_xor", bitwise_xor, Kind::kBits, "The bits that one of the two alone has, element by element.", "[5, 6]",
     "4", "tensor([1, 2])"},
    {"bitwise_left_shift", left_shift, Kind::kShift, "The bits of a, b places up, element by element.", "[1, 3]", "2",
     "tensor([ 4, 12])"},
    {"bitwise_right_shift", right_shift, Kind::kShift,
     "The bits of a, b places down, element by element; the sign stays.", "[8, -8]", "2", "tensor([ 2, -2])"},
    {"logical_and", logical_and, Kind::kTruth, "Whether both are true, element by element.", "[True, False]", "True",
     "tensor([ True, False])"},
    {"logical_or", logical_or, Kind::kTruth, "Whether one of the two is true, element by element.", "[True, False]",
     "True", "tensor([ True,  True])"},
    {"logical_xor", logical_xor, Kind::kTruth, "Whether one of the two alone is true, element by element.",
     "[True, False]", "True", "tensor([False,  True])"},
};

constexpr std::pair<const char*, const char*> kShortNames[] = {
    {"sub", "subtract"}, {"mul", "multiply"},  {"div", "divide"}, {"eq", "equal"},         {"ne", "not_equal"},
    {"lt", "less"},      {"le", "less_equal"}, {"gt", "greater"}, {"ge", "greater_equal"},
};

}  // namespace

void bind_binary(nb::module_& m) {
  for (const Function& f : kFunctions) {
    const Dtypes dtypes = dtypes_of(f.kind);
    const std::string doc = fmt::format(R"({}

Parameters
----------
a, b : Tensor, array or number
    Of {}; one of the two a tensor or an array. Shapes are broadcast as NumPy does.

Returns
-------
Tensor
    Of the broadcast shape and {}.

Raises
------
ValueError
    For other dtypes, shapes that cannot be broadcast, and integers that do not fit in the tensor's dtype.

>>> gb.{}(gb.tensor({}), {})
{}
)",
                                        f.what, dtypes.taken, dtypes.given,
                                        f.name == std::string_view("equal") ? "eq" : f.name, f.a, f.b, f.shown);
    m.def(
        f.name,
        [function = f.function, name = f.name](nb::handle a, nb::handle b) {
          const auto [x, y] = operands(name, a, b);
          return function(x, y);
        },
        nb::arg("a"), nb::arg("b"), nb::sig(fmt::format("def {}(a: Operand, b: Operand) -> Tensor", f.name).c_str()),
        doc.c_str());
  }
  for (const auto& [short_name, name] : kShortNames) m.attr(short_name) = m.attr(name);
  // For functions that Python puts together.
  m.def(
      "_operands", [](const std::string& op, nb::handle a, nb::handle b) { return operands(op.c_str(), a, b); },
      nb::sig("def _operands(op: str, a: Operand, b: Operand, /) -> tuple[Tensor, Tensor]"));
}

}  // namespace gabbro::python
