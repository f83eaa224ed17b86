// Elementwise functions of one tensor, and clamp, where, cast.
#include "python/ops.h"

namespace gabbro::python {
namespace {

using Unary = Tensor (*)(const Tensor&);

// Where the functions go: into the module, and as methods.
struct Scope {
  nb::module_& m;
  TensorClass& tensor;
};

// `what` is a sentence; `argument` and `shown` make the example.
void unary(Scope& scope, const char* name, Unary function, const char* what, const char* argument, const char* shown,
           const char* dtypes = "float32, float16 or bfloat16 (computed in float32)") {
  const std::string doc = fmt::format(R"({}

Parameters
----------
x : Tensor
    Of {}.

Returns
-------
Tensor
    Of the shape and dtype of `x`.

Raises
------
ValueError
    For another dtype.

>>> gb.{}(gb.tensor({}))
{}
)",
                                      what, dtypes, name, argument, shown);
  scope.m.def(name, function, nb::arg("x"), doc.c_str());
  scope.tensor.def(name, function, fmt::format("As `gabbro.{}`.", name).c_str());
}

constexpr const char* kNumbers = "float32, float16, bfloat16 or int32";

}  // namespace

void bind_elementwise(nb::module_& m, TensorClass& tensor) {
  Scope scope{m, tensor};
  unary(scope, "negative", neg, "-x, element by element.", "[1.0, -2.0]", "tensor([-1.,  2.])", kNumbers);
  unary(scope, "abs", abs, "The magnitude of each element.", "[1.0, -2.0]", "tensor([1., 2.])", kNumbers);
  unary(scope, "exp", exp, "e to the power of each element.", "[0.0, 1.0]", "tensor([1.       , 2.7182817])");
  unary(scope, "log", log, "The natural logarithm of each element; NaN of negative ones.", "[1.0, 2.0]",
        "tensor([0.       , 0.6931472])");
  unary(scope, "sqrt", sqrt, "The square root of each element; NaN of negative ones.", "[4.0, 9.0]",
        "tensor([2., 3.])");
  unary(scope, "rsqrt", rsqrt, "1 / sqrt(x), element by element.", "[4.0, 16.0]", "tensor([0.5 , 0.25])");
  unary(scope, "sin", sin, "The sine of each element, in radians.", "[0.0]", "tensor([0.])");
  unary(scope, "cos", cos, "The cosine of each element, in radians.", "[0.0]", "tensor([1.])");
  unary(scope, "tanh", tanh, "The hyperbolic tangent of each element.", "[0.0]", "tensor([0.])");
  unary(scope, "sigmoid", sigmoid, "1 / (1 + exp(-x)), element by element.", "[0.0]", "tensor([0.5])");
  unary(scope, "floor", floor, "The largest whole number that is not above each element.", "[1.5, -1.5]",
        "tensor([ 1., -2.])");
  unary(scope, "erf", erf, "The error function of each element: 2/sqrt(pi) times the integral of exp(-t²) from 0 to x.",
        "[0.0]", "tensor([0.])");
  unary(scope, "relu", relu, "max(x, 0), element by element.", "[1.0, -2.0]", "tensor([1., 0.])");
  unary(scope, "silu", silu, "x · sigmoid(x), element by element (Elfwing et al. 2017).", "[0.0]", "tensor([0.])");
  unary(scope, "logical_not", logical_not, "Whether each element is false.", "[True, False]", "tensor([False,  True])",
        "bool");
  m.attr("neg") = m.attr("negative");

  m.def(
      "gelu",
      [](const Tensor& x, const std::string& approximate) {
        if (approximate != "none" && approximate != "tanh")
          throw bad_input("[gelu] approximate is 'none' or 'tanh', not '{}'", approximate);
        return gelu(x, approximate == "tanh");
      },
      nb::arg("x"), nb::arg("approximate") = "none", R"(x · Φ(x), element by element (Hendrycks and Gimpel 2016).

Parameters
----------
x : Tensor
    Of float32, float16 or bfloat16 (computed in float32).
approximate : str
    ``"none"``: Φ by erf. ``"tanh"``: 0.5 · x · (1 + tanh(sqrt(2/pi) · (x + 0.044715 · x³))).

Returns
-------
Tensor
    Of the shape and dtype of `x`.

Raises
------
ValueError
    For another dtype, or another word.

>>> gb.gelu(gb.tensor([-10.0, 0.0, 10.0]))
tensor([-0.,  0., 10.])
)");

  m.def(
      "clamp",
      [](const Tensor& x, nb::handle min, nb::handle max) {
        if (min.is_none() && max.is_none()) return x;
        if (max.is_none()) return maximum(x, operand("clamp", min, x));
        if (min.is_none()) return minimum(x, operand("clamp", max, x));
        return clamp(x, operand("clamp", min, x), operand("clamp", max, x));
      },
      nb::arg("x"), nb::arg("min") = nb::none(), nb::arg("max") = nb::none(),
      nb::sig("def clamp(x: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor"),
      R"(min(max(x, low), high), element by element: so the upper bound where the bounds cross. A NaN stays one.

Parameters
----------
x : Tensor
    Of float32, float16, bfloat16 or int32.
min, max : Tensor or number, optional
    The bounds, broadcast against `x`, of its dtype.

Returns
-------
Tensor
    Of the broadcast shape.

Raises
------
ValueError
    For other dtypes, and shapes that cannot be broadcast.

>>> gb.clamp(gb.tensor([-1.0, 0.5, 2.0]), 0, 1)
tensor([0. , 0.5, 1. ])
)");
  m.attr("clip") = m.attr("clamp");

  m.def(
      "where",
      [](const Tensor& condition, nb::handle a, nb::handle b) {
        if (is_number(a) && is_number(b)) {
          const Tensor x = tensor_of(a, {.device = condition.device()}),
                       y = tensor_of(b, {.device = condition.device()});
          return where(condition, is_floating(y.dtype()) ? cast(x, y.dtype()) : x,
                       is_floating(x.dtype()) ? cast(y, x.dtype()) : y);
        }
        const auto [x, y] = operands("where", a, b);
        return where(condition, x, y);
      },
      nb::arg("condition"), nb::arg("a"), nb::arg("b"),
      nb::sig("def where(condition: Tensor, a: Operand, b: Operand) -> Tensor"),
      R"(Elements of `a` where the condition is true, of `b` elsewhere.

Parameters
----------
condition : Tensor
    Of bool.
a, b : Tensor or number
    Of one dtype; all three are broadcast.

Returns
-------
Tensor
    Of the broadcast shape and the dtype of `a` and `b`.

Raises
------
ValueError
    For other dtypes, and shapes that cannot be broadcast.

>>> x = gb.tensor([1.0, -2.0])
>>> gb.where(x > 0, x, 0)
tensor([1., 0.])
)");

  m.def(
      "astype", [](const Tensor& x, DType dtype) { return cast(x, dtype); }, nb::arg("x"), nb::arg("dtype"),
      R"(The same numbers in another dtype.

Floats become integers by truncation, and halves by rounding to nearest even.

>>> gb.astype(gb.tensor([1.5, -1.5]), "int32")
tensor([ 1, -1])
)");
  m.attr("cast") = m.attr("astype");
}

}  // namespace gabbro::python
