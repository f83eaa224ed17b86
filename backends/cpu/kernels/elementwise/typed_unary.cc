// Elementwise functions of one tensor: of f64 all, and of f32 (and f16 and bf16 by f32) those that have no function
// over F32. Loops over simd/f32.h, simd/f64.h and simd/library.h, which the compiler vectorizes. `round` goes to
// the even one of two.
#include <cmath>
#include <string_view>

#include "backends/cpu/kernels/elementwise/elementwise.h"
#include "backends/cpu/kernels/pieces.h"
#include "backends/cpu/kernels/tensor_kernels.h"
#include "backends/cpu/simd/f32.h"
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

template <float (*kFloat)(float), double (*kDouble)(double)>
constexpr Unary by_pieces(const char* op) {
  return {op, pieces_of<float, kFloat>, pieces_of<double, kDouble>};
}

// x·Φ(x) with its leading digits where Φ is small, which 1 + erf(x / √2) would lose.
double gelu(double x) { return 0.5 * x * ::erfc(-0.70710678118654752 * x); }

template <float (*kBase)(const f32::Logarithm&), double (*kDouble)(double)>
constexpr Unary logarithm(const char* op) {
  return {op, normal_pieces_of<f32::log_of_normal<kBase>, f32::log_of_any<kBase>>, pieces_of<double, kDouble>};
}

constexpr Unary kUnary[] = {
    unary<[](auto x) { return -x; }>("neg"),
    unary<[](auto x) { return std::fabs(x); }>("abs"),
    {"exp", nullptr, reduced_pieces_of<double, f64::exp_of_normal, f64::exp, f64::kMostNormal>},
    logarithm<f32::of_base_e, f64::log>("log"),
    unary<[](auto x) { return std::sqrt(x); }>("sqrt"),
    unary<[](auto x) { return 1 / std::sqrt(x); }>("rsqrt"),
    {"sin", nullptr, reduced_pieces_of<double, f64::sin, ::sin, f64::kMostReducible>},
    {"cos", nullptr, reduced_pieces_of<double, f64::cos, ::cos, f64::kMostReducible>},
    {"tanh", nullptr, pieces_of<double, f64::tanh>},
    {"sigmoid", nullptr, reduced_pieces_of<double, f64::sigmoid_of_normal, f64::sigmoid, f64::kMostNormal>},
    unary<[](auto x) { return std::floor(x); }>("floor"),
    {"erf", nullptr, pieces_of<double, ::erf>},
    {"gelu", nullptr, pieces_of<double, gelu>},
    unary<[](auto x) { return std::ceil(x); }>("ceil"),
    unary<[](auto x) { return std::nearbyint(x); }>("round"),
    unary<[](auto x) { return std::trunc(x); }>("trunc"),
    unary<[](auto x) { return 0 < x    ? 1
                              : x < 0  ? -1
                              : x == 0 ? 0
                                       : x; }>("sign"),
    by_pieces<f32::expm1, f64::expm1>("expm1"),
    by_pieces<f32::log1p, f64::log1p>("log1p"),
    logarithm<f32::of_base_2, ::log2>("log2"),
    logarithm<f32::of_base_10, ::log10>("log10"),
    {"tan", reduced_pieces_of<float, f32::tan, ::tanf, f32::kMostReducible>,
     reduced_pieces_of<double, f64::tan, ::tan, f64::kMostReducible>},
    by_pieces<f32::sinh, ::sinh>("sinh"),
    by_pieces<f32::cosh, ::cosh>("cosh"),
    by_pieces<f32::asin, ::asin>("asin"),
    by_pieces<f32::acos, ::acos>("acos"),
    by_pieces<f32::atan, ::atan>("atan"),
    by_pieces<f32::asinh, ::asinh>("asinh"),
    by_pieces<f32::acosh, ::acosh>("acosh"),
    by_pieces<f32::atanh, ::atanh>("atanh"),
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
