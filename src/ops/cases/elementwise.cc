// Elementwise functions of one tensor and of three.
#include <cmath>
#include <utility>

#include "src/ops/cases/attributes.h"
#include "src/ops/cases/cases.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"

namespace gabbro::cases {
namespace {

using nlohmann::json;

// Kernels: three ulp for functions of the vocabulary (2 for e^x, and the operations around it), one for the C
// library's; sine and cosine have an absolute error near their zeros. Values and gradients are tested away from kinks
// and poles.
const Unary kUnary[] = {
    {.name = "neg",
     .op = &kNeg,
     .call = neg,
     .reference = [](double x) { return -x; },
     .ulps = 0,
     .kernel = {{-2, 2, 0}},
     .refusal = "[neg] does not take bool of shape (2, 5) (only f32, f16, bf16, f64, i8, u8, i16, i32, i64)"},
    {.name = "abs",
     .op = &kAbs,
     .call = abs,
     .reference = [](double x) { return std::abs(x); },
     .low = -1.9,
     .high = 2.2,
     .ulps = 0,
     .kernel = {{-2, 2, 0}}},
    {.name = "exp",
     .op = &kExp,
     .call = exp,
     .reference = [](double x) { return std::exp(x); },
     .kernel = {{-80, 80, 3}}},
    {.name = "log",
     .op = &kLog,
     .call = log,
     .reference = [](double x) { return std::log(x); },
     .low = 0.25,
     .kernel = {{0, 50, 1}}},
    {.name = "sqrt",
     .op = &kSqrt,
     .call = sqrt,
     .reference = [](double x) { return std::sqrt(x); },
     .low = 0.25,
     .kernel = {{0, 50, 1}}},
    {.name = "rsqrt",
     .op = &kRsqrt,
     .call = rsqrt,
     .reference = [](double x) { return 1 / std::sqrt(x); },
     .low = 0.5,
     .kernel = {{0.01f, 50, 2}}},
    {.name = "sin",
     .op = &kSin,
     .call = sin,
     .reference = [](double x) { return std::sin(x); },
     .kernel = {{-5000, 5000, 2, 1}}},
    {.name = "cos",
     .op = &kCos,
     .call = cos,
     .reference = [](double x) { return std::cos(x); },
     .kernel = {{-5000, 5000, 2, 1}}},
    {.name = "tanh",
     .op = &kTanh,
     .call = tanh,
     .reference = [](double x) { return std::tanh(x); },
     .kernel = {{-10, 10, 6}}},
    {.name = "sigmoid",
     .op = &kSigmoid,
     .call = sigmoid,
     .reference = [](double x) { return 1 / (1 + std::exp(-x)); },
     .kernel = {{-30, 30, 6}}},
    {.name = "floor",
     .op = &kFloor,
     .call = floor,
     .reference = [](double x) { return std::floor(x); },
     .ulps = 0,
     .no_gradient = "steps",
     .kernel = {{-20, 20, 0}}},
    {.name = "erf",
     .op = &kErf,
     .call = erf,
     .reference = [](double x) { return std::erf(x); },
     .kernel = {{-5, 5, 2}}},
    {.name = "relu",
     .op = &kRelu,
     .call = relu,
     .reference = [](double x) { return x < 0 ? 0 : x; },
     .low = -1.9,
     .high = 2.2,
     .ulps = 0,
     .kernel = {{-5, 5, 0}},
     .refusal = "[relu] does not take bool of shape (2, 5) (only f32, f16, bf16, f64)"},
    {.name = "ceil",
     .op = &kCeil,
     .call = ceil,
     .reference = [](double x) { return std::ceil(x); },
     .ulps = 0,
     .no_gradient = "steps",
     .kernel = {{-20, 20, 0}}},
    {.name = "round",
     .op = &kRound,
     .call = round,
     .reference = [](double x) { return std::nearbyint(x); },
     .ulps = 0,
     .no_gradient = "steps",
     .kernel = {{-20, 20, 0}}},
    {.name = "trunc",
     .op = &kTrunc,
     .call = trunc,
     .reference = [](double x) { return std::trunc(x); },
     .ulps = 0,
     .no_gradient = "steps",
     .kernel = {{-20, 20, 0}}},
    {.name = "sign",
     .op = &kSign,
     .call = sign,
     .reference = [](double x) { return x > 0   ? 1
                                        : x < 0 ? -1
                                                : x; },
     .ulps = 0,
     .no_gradient = "steps",
     .kernel = {{-2, 2, 0}}},
    {.name = "expm1",
     .op = &kExpm1,
     .call = expm1,
     .reference = [](double x) { return std::expm1(x); },
     .kernel = {{-20, 80, 2}}},
    {.name = "log1p",
     .op = &kLog1p,
     .call = log1p,
     .reference = [](double x) { return std::log1p(x); },
     .low = -0.5,
     .kernel = {{-0.99f, 50, 2}}},
    {.name = "log2",
     .op = &kLog2,
     .call = log2,
     .reference = [](double x) { return std::log2(x); },
     .low = 0.25,
     .kernel = {{0, 50, 2}}},
    {.name = "log10",
     .op = &kLog10,
     .call = log10,
     .reference = [](double x) { return std::log10(x); },
     .low = 0.25,
     .kernel = {{0, 50, 2}}},
    {.name = "tan",
     .op = &kTan,
     .call = tan,
     .reference = [](double x) { return std::tan(x); },
     .low = -1,
     .high = 1,
     .kernel = {{-5000, 5000, 4}}},
    {.name = "sinh",
     .op = &kSinh,
     .call = sinh,
     .reference = [](double x) { return std::sinh(x); },
     .kernel = {{-80, 80, 3}}},
    {.name = "cosh",
     .op = &kCosh,
     .call = cosh,
     .reference = [](double x) { return std::cosh(x); },
     .kernel = {{-80, 80, 3}}},
    {.name = "asin",
     .op = &kAsin,
     .call = asin,
     .reference = [](double x) { return std::asin(x); },
     .low = -0.75,
     .high = 0.75,
     .kernel = {{-1, 1, 3}}},
    {.name = "acos",
     .op = &kAcos,
     .call = acos,
     .reference = [](double x) { return std::acos(x); },
     .low = -0.75,
     .high = 0.75,
     .kernel = {{-1, 1, 3}}},
    {.name = "atan",
     .op = &kAtan,
     .call = atan,
     .reference = [](double x) { return std::atan(x); },
     .kernel = {{-50, 50, 2}}},
    {.name = "asinh",
     .op = &kAsinh,
     .call = asinh,
     .reference = [](double x) { return std::asinh(x); },
     .kernel = {{-50, 50, 3}}},
    {.name = "acosh",
     .op = &kAcosh,
     .call = acosh,
     .reference = [](double x) { return std::acosh(x); },
     .low = 1.5,
     .high = 3,
     .kernel = {{1, 50, 3}}},
    {.name = "atanh",
     .op = &kAtanh,
     .call = atanh,
     .reference = [](double x) { return std::atanh(x); },
     .low = -0.75,
     .high = 0.75,
     .kernel = {{-0.99f, 0.99f, 3}}},
    {.name = "exp2", .op = &kPow, .call = exp2, .reference = [](double x) { return std::exp2(x); }},
    {.name = "reciprocal", .op = &kDiv, .call = reciprocal, .reference = [](double x) { return 1 / x; }, .low = 0.5},
    {.name = "square", .op = &kMul, .call = square, .reference = [](double x) { return x * x; }},
    {.name = "silu", .op = &kSilu, .call = silu, .reference = [](double x) { return x / (1 + std::exp(-x)); }},
    {.name = "gelu",
     .op = &kGelu,
     .call = [](const Tensor& x) { return gelu(x); },
     .reference = [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2))); },
     .refusal = "[gelu] does not take bool of shape (2, 5) (only f32, f16, bf16, f64)"},
    {.name = "gelu_tanh",
     .op = &kGeluTanh,
     .call = [](const Tensor& x) { return gelu(x, true); },
     .reference = [](double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }},
};

// 11 numbers, none and one.
std::vector<ValueCase> values_of(const Unary& f) {
  std::vector<ValueCase> cases;
  if (f.reference == nullptr) return cases;
  for (const Shape& shape : {Shape{11}, Shape{3, 0}, Shape{1, 1}}) {
    ValueCase c{.inputs = {{shape, {}}}, .expected = {shape, {}}, .ulps = f.ulps};
    const auto count = static_cast<double>(shape.elements());
    for (double i = 0; i < count; ++i) {
      const auto x = static_cast<double>(static_cast<float>(f.low + (f.high - f.low) * (i + 0.5) / count));
      c.inputs[0].numbers.push_back(x);
      c.expected.numbers.push_back(f.reference(x));
    }
    cases.push_back(std::move(c));
  }
  return cases;
}

Entry entry_of(const Unary& f) {
  Entry e{.name = f.name, .call = [&f](const Inputs& x, const json&) { return f.call(x[0]); }, .values = values_of(f)};
  if (f.no_gradient != nullptr) {
    e.without_gradient = {{f.op, f.no_gradient}};
  } else {
    e.gradients = {{f.name, f.op, {{Shape{3, 5}, f.low, f.high}}, one([&f](const Inputs& x) { return f.call(x[0]); })}};
  }
  if (f.refusal != nullptr) e.refusals = {{[&f] { f.call(refused_input(DType::boolean)); }, f.refusal}};
  return e;
}

}  // namespace

const std::vector<Unary>& unary_functions() {
  static const std::vector<Unary> functions(std::begin(kUnary), std::end(kUnary));
  return functions;
}

void add_elementwise(std::vector<Entry>& entries) {
  for (const Unary& f : kUnary) entries.push_back(entry_of(f));
  const Shape shape{3, 5};
  entries.insert(
      entries.end(),
      {
          {.name = "logical_not",
           .call = [](const Inputs& x, const json&) { return logical_not(x[0]); },
           .refusals = {{[] { logical_not(Tensor()); }, "[logical_not] an input is not a tensor"}}},
          {.name = "bitwise_not", .call = [](const Inputs& x, const json&) { return bitwise_not(x[0]); }},
          {.name = "isnan", .call = [](const Inputs& x, const json&) { return isnan(x[0]); }},
          {.name = "isinf", .call = [](const Inputs& x, const json&) { return isinf(x[0]); }},
          {.name = "isfinite", .call = [](const Inputs& x, const json&) { return isfinite(x[0]); }},
          {.name = "clamp",
           .call =
               [](const Inputs& x, const json& a) {
                 return x.size() == 3 ? clamp(x[0], x[1], x[2])
                                      : clamp(x[0], a.at("low").get<double>(), a.at("high").get<double>());
               },
           .gradients = {{"clamp",
                          &kClamp,
                          {{shape}, {Shape{3, 1}, -1.03, -0.5}, {Shape{5}, 0.6, 1.57}},
                          one([](const Inputs& x) { return clamp(x[0], x[1], x[2]); })},
                         {"clamp between numbers", &kClamp, {{shape, -1.9, 2.2}}, one([](const Inputs& x) {
                            return clamp(x[0], -0.75, 1.4);
                          })}}},
          {.name = "where",
           .call = [](const Inputs& x, const json&) { return where(x[0], x[1], x[2]); },
           .gradients = {{"where", &kWhere, {{Shape{3, 4}}, {Shape{4}}}, one([](const Inputs& x) {
                            const Tensor flags = cast(ints(Shape{3, 1}, {1, 0, 1}), DType::boolean);
                            return where(flags, x[0], x[1]);
                          })}}},
          {.name = "cast",
           .call = [](const Inputs& x, const json& a) { return cast(x[0], dtype(a)); },
           .gradients = {{"cast through f32", &kCast, {{shape}}, one([](const Inputs& x) {
                            return record(kCast, {x[0] * x[0]}, {{"dtype", static_cast<int64_t>(DType::f32)}});
                          })}}},
          {.name = "through_f16",
           .call = [](const Inputs& x, const json&) { return cast(cast(x[0], DType::f16), DType::f32); }},
          {.name = "through_bf16",
           .call = [](const Inputs& x, const json&) { return cast(cast(x[0], DType::bf16), DType::f32); }},
      });
}

}  // namespace gabbro::cases
