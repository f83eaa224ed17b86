// Functions of two tensors that broadcast.
#include "python/ops.h"

namespace gabbro::python {
namespace {

using Binary = Tensor (*)(const Tensor&, const Tensor&);

struct Words {
  const char* what;
  const char* a;
  const char* b;
  const char* shown;
  const char* dtypes = "float32, float16, bfloat16 or int32";
  const char* result = "the broadcast shape, and the dtype of both";
};

void binary(nb::module_& m, const char* name, Binary function, const Words& words) {
  const std::string doc = fmt::format(R"({}

Parameters
----------
a, b : Tensor or number
    Of {}, and of one dtype. A number takes the dtype of the tensor, or is float32 beside integers where it is a float.
    The shapes are broadcast as NumPy does.

Returns
-------
Tensor
    Of {}.

Raises
------
ValueError
    For other dtypes, and shapes that cannot be broadcast.

>>> gb.{}(gb.tensor({}), {})
{}
)",
                                      words.what, words.dtypes, words.result, name, words.a, words.b, words.shown);
  m.def(
      name,
      [function, name](nb::handle a, nb::handle b) {
        const auto [x, y] = operands(name, a, b);
        return function(x, y);
      },
      nb::arg("a"), nb::arg("b"), nb::sig(fmt::format("def {}(a: Operand, b: Operand) -> Tensor", name).c_str()),
      doc.c_str());
}

void comparison(nb::module_& m, const char* name, Binary function, const char* what, const char* shown) {
  binary(m, name, function,
         {.what = what,
          .a = "[1.0, 2.0, 3.0]",
          .b = "2",
          .shown = shown,
          .dtypes = "float32, float16, bfloat16, int32 or bool",
          .result = "the broadcast shape, of bool"});
}

}  // namespace

void bind_binary(nb::module_& m) {
  binary(m, "add", add, {"a + b, element by element.", "[1.0, 2.0]", "3", "tensor([4., 5.])"});
  binary(m, "subtract", sub, {"a - b, element by element.", "[1.0, 2.0]", "3", "tensor([-2., -1.])"});
  binary(m, "multiply", mul, {"a · b, element by element.", "[1.0, 2.0]", "3", "tensor([3., 6.])"});
  binary(m, "divide", true_divide,
         {.what = "a / b, element by element; of integers, in float32.",
          .a = "[1, 2]",
          .b = "2",
          .shown = "tensor([0.5, 1. ])",
          .result = "the broadcast shape"});
  binary(m, "maximum", maximum, {"The larger of a and b, element by element.", "[1.0, 4.0]", "3", "tensor([3., 4.])"});
  binary(m, "minimum", minimum, {"The smaller of a and b, element by element.", "[1.0, 4.0]", "3", "tensor([1., 3.])"});
  binary(m, "pow", pow,
         {"a to the power b, element by element. Of integers with a negative power: 0, but for ±1.", "[1.0, 4.0]", "2",
          "tensor([ 1., 16.])"});
  comparison(m, "equal", equal, "Whether a is b, element by element.", "tensor([False,  True, False])");
  comparison(m, "not_equal", not_equal, "Whether a is not b, element by element.", "tensor([ True, False,  True])");
  comparison(m, "less", less, "Whether a < b, element by element.", "tensor([ True, False, False])");
  comparison(m, "less_equal", less_equal, "Whether a <= b, element by element.", "tensor([ True,  True, False])");
  comparison(m, "greater", greater, "Whether a > b, element by element.", "tensor([False, False,  True])");
  comparison(m, "greater_equal", greater_equal, "Whether a >= b, element by element.", "tensor([False,  True,  True])");
  binary(m, "logical_and", logical_and,
         {.what = "Whether both are true, element by element.",
          .a = "[True, False]",
          .b = "True",
          .shown = "tensor([ True, False])",
          .dtypes = "bool"});
  binary(m, "logical_or", logical_or,
         {.what = "Whether one of the two is true, element by element.",
          .a = "[True, False]",
          .b = "True",
          .shown = "tensor([ True,  True])",
          .dtypes = "bool"});
  for (const auto& [short_name, name] : {std::pair{"sub", "subtract"},
                                         {"mul", "multiply"},
                                         {"div", "divide"},
                                         {"eq", "equal"},
                                         {"ne", "not_equal"},
                                         {"lt", "less"},
                                         {"le", "less_equal"},
                                         {"gt", "greater"},
                                         {"ge", "greater_equal"}}) {
    m.attr(short_name) = m.attr(name);
  }
  m.def(
      "matmul", [](const Tensor& a, const Tensor& b) { return matmul(a, b); }, nb::arg("a"), nb::arg("b"),
      R"(The matrix product of the last two axes; the axes before are broadcast.

Parameters
----------
a : Tensor
    [..., M, K]
b : Tensor
    [..., K, N], of the same dtype.

Returns
-------
Tensor
    [..., M, N]; halves are summed in float32.

Raises
------
ValueError
    Where the shapes or dtypes do not fit.

>>> gb.matmul(gb.tensor([[1.0, 2.0]]), gb.tensor([[3.0], [4.0]]))
tensor([[11.]])
)");
}

}  // namespace gabbro::python
