// Elementwise functions of one tensor.
#include "python/src/ops.h"

namespace gabbro::python {
namespace {

using Unary = Tensor (*)(const Tensor&);

// Operand and result dtypes of a function.
enum class Kind { kFraction, kNumber, kTest, kFloat, kBits, kTruth };

struct Dtypes {
  const char* taken;
  const char* given;
};

Dtypes dtypes_of(Kind kind) {
  switch (kind) {
    case Kind::kFraction:
      return {"any dtype but block formats; float16 and bfloat16 are computed in float32",
              "the dtype of `x`, or float32 for integers and bool"};
    case Kind::kNumber:
      return {"any dtype but bool and block formats", "the dtype of `x`"};
    case Kind::kTest:
      return {"any dtype but block formats", "bool"};
    case Kind::kFloat:
      return {"float32, float64, float16 or bfloat16", "the dtype of `x`"};
    case Kind::kBits:
      return {"integers or bool", "the dtype of `x`"};
    case Kind::kTruth:
      return {"any dtype but block formats; what is not zero is true", "bool"};
  }
  return {};
}

struct Function {
  const char* name;
  Unary function;
  Kind kind;
  const char* what;      // a sentence
  const char* argument;  // of the example
  const char* shown;
};

constexpr Function kFunctions[] = {
    {"exp", exp, Kind::kFraction, "e to the power of each element.", "[0.0, 1.0]", "tensor([1.       , 2.7182817])"},
    {"exp2", exp2, Kind::kFraction, "2 to the power of each element.", "[0.0, 3.0]", "tensor([1., 8.])"},
    {"expm1", expm1, Kind::kFraction, "e to the power of each element, less 1, precise near 0.", "[0.0, 1e-10]",
     "tensor([0.e+00, 1.e-10])"},
    {"log", log, Kind::kFraction, "The natural logarithm of each element; NaN of negative ones.", "[1.0, 2.0]",
     "tensor([0.       , 0.6931472])"},
    {"log1p", log1p, Kind::kFraction, "log(1 + x) of each element, precise near 0.", "[0.0, 1e-10]",
     "tensor([0.e+00, 1.e-10])"},
    {"log2", log2, Kind::kFraction, "The logarithm to base 2 of each element; NaN of negative ones.", "[1.0, 8.0]",
     "tensor([0., 3.])"},
    {"log10", log10, Kind::kFraction, "The logarithm to base 10 of each element; NaN of negative ones.", "[1.0, 100.0]",
     "tensor([0., 2.])"},
    {"sqrt", sqrt, Kind::kFraction, "The square root of each element; NaN of negative ones.", "[4, 9]",
     "tensor([2., 3.])"},
    {"rsqrt", rsqrt, Kind::kFraction, "1 / sqrt(x), element by element.", "[4.0, 16.0]", "tensor([0.5 , 0.25])"},
    {"reciprocal", reciprocal, Kind::kFraction, "1 / x, element by element.", "[4.0, 2.0]", "tensor([0.25, 0.5 ])"},
    {"sin", sin, Kind::kFraction, "The sine of each element, in radians.", "[0.0]", "tensor([0.])"},
    {"cos", cos, Kind::kFraction, "The cosine of each element, in radians.", "[0.0]", "tensor([1.])"},
    {"tan", tan, Kind::kFraction, "The tangent of each element, in radians.", "[0.0]", "tensor([0.])"},
    {"asin", asin, Kind::kFraction, "The angle, in radians, whose sine each element is; NaN outside of [-1, 1].",
     "[0.0]", "tensor([0.])"},
    {"acos", acos, Kind::kFraction, "The angle, in radians, whose cosine each element is; NaN outside of [-1, 1].",
     "[1.0]", "tensor([0.])"},
    {"atan", atan, Kind::kFraction, "The angle, in radians, whose tangent each element is.", "[0.0]", "tensor([0.])"},
    {"sinh", sinh, Kind::kFraction, "The hyperbolic sine of each element.", "[0.0]", "tensor([0.])"},
    {"cosh", cosh, Kind::kFraction, "The hyperbolic cosine of each element.", "[0.0]", "tensor([1.])"},
    {"tanh", tanh, Kind::kFraction, "The hyperbolic tangent of each element.", "[0.0]", "tensor([0.])"},
    {"asinh", asinh, Kind::kFraction, "What each element is the hyperbolic sine of.", "[0.0]", "tensor([0.])"},
    {"acosh", acosh, Kind::kFraction, "What each element is the hyperbolic cosine of; NaN below 1.", "[1.0]",
     "tensor([0.])"},
    {"atanh", atanh, Kind::kFraction, "What each element is the hyperbolic tangent of; NaN outside of [-1, 1].",
     "[0.0]", "tensor([0.])"},
    {"sigmoid", sigmoid, Kind::kFraction, "1 / (1 + exp(-x)), element by element.", "[0.0]", "tensor([0.5])"},
    {"erf", erf, Kind::kFraction,
     "The error function of each element: 2/sqrt(pi) times the integral of exp(-t²) from 0 to x.", "[0.0]",
     "tensor([0.])"},
    {"negative", neg, Kind::kNumber, "-x, element by element.", "[1.0, -2.0]", "tensor([-1.,  2.])"},
    {"abs", abs, Kind::kNumber, "The magnitude of each element.", "[1, -2]", "tensor([1, 2])"},
    {"sign", sign, Kind::kNumber, "-1, 0 or 1 for each element; a NaN stays one.", "[5.0, -2.0, 0.0]",
     "tensor([ 1., -1.,  0.])"},
    {"square", square, Kind::kNumber, "x · x, element by element.", "[3, -2]", "tensor([9, 4])"},
    {"floor", floor, Kind::kNumber, "The largest whole number that is not above each element.", "[1.5, -1.5]",
     "tensor([ 1., -2.])"},
    {"ceil", ceil, Kind::kNumber, "The smallest whole number that is not below each element.", "[1.5, -2.5]",
     "tensor([ 2., -2.])"},
    {"round", round, Kind::kNumber, "The nearest whole number to each element, the even one of two.", "[1.5, 2.5]",
     "tensor([2., 2.])"},
    {"trunc", trunc, Kind::kNumber, "Each element without its fraction.", "[1.5, -1.5]", "tensor([ 1., -1.])"},
    {"isnan", isnan, Kind::kTest, "Whether each element is a NaN.", "[1.0, float('nan')]", "tensor([False,  True])"},
    {"isinf", isinf, Kind::kTest, "Whether each element is infinite.", "[1.0, float('-inf')]",
     "tensor([False,  True])"},
    {"isfinite", isfinite, Kind::kTest, "Whether each element is neither infinite nor a NaN.", "[1.0, float('-inf')]",
     "tensor([ True, False])"},
    {"relu", relu, Kind::kFloat, "max(x, 0), element by element.", "[1.0, -2.0]", "tensor([1., 0.])"},
    {"silu", silu, Kind::kFloat, "x · sigmoid(x), element by element (Elfwing et al. 2017).", "[0.0]", "tensor([0.])"},
    {"bitwise_invert", bitwise_not, Kind::kBits,
     "Each element with all bits inverted: -x - 1 for integers, the other value for bool.", "[0, 5]",
     "tensor([-1, -6])"},
    {"logical_not", logical_not, Kind::kTruth, "Whether each element is false.", "[True, False]",
     "tensor([False,  True])"},
};

}  // namespace

void bind_elementwise(nb::module_& m, TensorClass& tensor) {
  for (const Function& f : kFunctions) {
    const Dtypes dtypes = dtypes_of(f.kind);
    const std::string doc = fmt::format(R"({}

Parameters
----------
x : Tensor
    Of {}.

Returns
-------
Tensor
    Of the shape of `x` and {}.

Raises
------
ValueError
    For another dtype.

>>> gb.{}(gb.tensor({}))
{}
)",
                                        f.what, dtypes.taken, dtypes.given, f.name, f.argument, f.shown);
    m.def(f.name, f.function, nb::arg("x"), doc.c_str());
    tensor.def(f.name, f.function, fmt::format("As `gabbro.{}`.", f.name).c_str());
  }
  for (const auto& [short_name, name] :
       {std::pair{"neg", "negative"}, {"bitwise_not", "bitwise_invert"}, {"absolute", "abs"}}) {
    m.attr(short_name) = m.attr(name);
  }

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
    Of float32, float64, float16 or bfloat16 (the last two computed in float32).
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

>>> gb.gelu(gb.tensor([-20.0, 0.0, 10.0]))
tensor([-0.,  0., 10.])
)");
}

}  // namespace gabbro::python
