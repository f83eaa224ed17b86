// Elementwise functions of one tensor: of f64 all, and of f32 (and f16 and bf16 by f32) those that have no function
// over F32. Loops over simd/f64.h and simd/library.h, of which the compiler makes vectors. `round` goes to the even one
// of two.
#include <cmath>
#include <string_view>

#include "backends/cpu/kernels/elementwise/elementwise.h"
#include "backends/cpu/kernels/pieces.h"
#include "backends/cpu/kernels/tensor_kernels.h"
#include "backends/cpu/simd/f64.h"
#include "backends/cpu/simd/library.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

struct Unary {
  const char* op;
  RowFunction f32;  // null: unary.cc has it
  RowFunction f64;
};

template <class T, auto kFunction>
void row_of(const Row& row) {
  map_row<T, T>(row, [](T x) -> T { return kFunction(x); });
}

template <auto kFunction>
constexpr Unary unary(const char* op) {
  return {op, row_of<float, kFunction>, row_of<double, kFunction>};
}

// Rows of functions that a compiler's vectors do not compute to the last bit as its single elements.
template <class T, T (*kFunction)(T)>
void pieces_of(const Row& row) {
  map_pieces<T>(row, [](const T* x, T* y) {
    for (int i = 0; i < kPiece; ++i) y[i] = kFunction(x[i]);
  });
}

// Rows of a function that is cheaper, or exact enough, within ±kMost only; other arguments take another one.
template <double (*kWithin)(double), double (*kElsewhere)(double), const double& kMost>
void reduced_pieces_of(const Row& row) {
  map_pieces<double>(row, [](const double* x, double* y) {
    int outside = 0;
    for (int i = 0; i < kPiece; ++i) {
      y[i] = kWithin(x[i]);
      outside |= static_cast<int>(!(std::fabs(x[i]) <= kMost));
    }
    if (outside == 0) return;
    for (int i = 0; i < kPiece; ++i) {
      if (!(std::fabs(x[i]) <= kMost)) y[i] = kElsewhere(x[i]);
    }
  });
}

template <float (*kFloat)(float), double (*kDouble)(double)>
constexpr Unary by_pieces(const char* op) {
  return {op, pieces_of<float, kFloat>, pieces_of<double, kDouble>};
}

constexpr Unary kUnary[] = {
    unary<[](auto x) { return -x; }>("neg"),
    unary<[](auto x) { return std::fabs(x); }>("abs"),
    {"exp", nullptr, reduced_pieces_of<f64::exp_of_normal, f64::exp, f64::kMostNormal>},
    {"log", nullptr, pieces_of<double, f64::log>},
    unary<[](auto x) { return std::sqrt(x); }>("sqrt"),
    unary<[](auto x) { return 1 / std::sqrt(x); }>("rsqrt"),
    {"sin", nullptr, reduced_pieces_of<f64::sin, ::sin, f64::kMostReducible>},
    {"cos", nullptr, reduced_pieces_of<f64::cos, ::cos, f64::kMostReducible>},
    {"tanh", nullptr, pieces_of<double, f64::tanh>},
    {"sigmoid", nullptr, reduced_pieces_of<f64::sigmoid_of_normal, f64::sigmoid, f64::kMostNormal>},
    unary<[](auto x) { return std::floor(x); }>("floor"),
    {"erf", nullptr, pieces_of<double, ::erf>},
    unary<[](auto x) { return std::ceil(x); }>("ceil"),
    unary<[](auto x) { return std::nearbyint(x); }>("round"),
    unary<[](auto x) { return std::trunc(x); }>("trunc"),
    unary<[](auto x) { return 0 < x    ? 1
                              : x < 0  ? -1
                              : x == 0 ? 0
                                       : x; }>("sign"),
    by_pieces<::expm1f, f64::expm1>("expm1"),
    by_pieces<::log1pf, f64::log1p>("log1p"),
    by_pieces<::log2f, ::log2>("log2"),
    by_pieces<::log10f, ::log10>("log10"),
    {"tan", pieces_of<float, ::tanf>, reduced_pieces_of<f64::tan, ::tan, f64::kMostReducible>},
    by_pieces<::sinhf, ::sinh>("sinh"),
    by_pieces<::coshf, ::cosh>("cosh"),
    by_pieces<::asinf, ::asin>("asin"),
    by_pieces<::acosf, ::acos>("acos"),
    by_pieces<::atanf, ::atan>("atan"),
    by_pieces<::asinhf, ::asinh>("asinh"),
    by_pieces<::acoshf, ::acosh>("acosh"),
    by_pieces<::atanhf, ::atanh>("atanh"),
};

}  // namespace

std::unique_ptr<Kernel> make_typed_unary(const abi::KernelRequest& request, const MakeContext&) {
  if (!is_elementwise_by_rows(request, 1)) return nullptr;
  const DType dtype = request.inputs[0].dtype;
  if (!is_floating(dtype) || request.outputs[0].dtype != dtype) return nullptr;
  for (const Unary& unary : kUnary) {
    if (std::string_view(unary.op) != request.op) continue;
    const RowFunction row = dtype == DType::f64 ? unary.f64 : unary.f32;
    return row == nullptr ? nullptr : Elementwise(request, row).through_f32(is_half(dtype));
  }
  return nullptr;
}

}  // namespace gabbro::cpu::GABBRO_ISA
