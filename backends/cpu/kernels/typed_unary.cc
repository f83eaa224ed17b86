// Elementwise functions of one tensor that have no vectors of their own: of f64 all, and of f32 (and f16 and bf16 by
// f32) those that few programs spend their time in. `round` goes to the even one of two.
#include <cmath>
#include <string_view>

#include "backends/cpu/kernels/elementwise.h"
#include "backends/cpu/kernels/tensor_kernels.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

struct Unary {
  const char* op;
  RowFunction f32;
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

constexpr Unary kUnary[] = {
    unary<[](auto x) { return -x; }>("neg"),
    unary<[](auto x) { return std::fabs(x); }>("abs"),
    unary<[](auto x) { return std::exp(x); }>("exp"),
    unary<[](auto x) { return std::log(x); }>("log"),
    unary<[](auto x) { return std::sqrt(x); }>("sqrt"),
    unary<[](auto x) { return 1 / std::sqrt(x); }>("rsqrt"),
    unary<[](auto x) { return std::sin(x); }>("sin"),
    unary<[](auto x) { return std::cos(x); }>("cos"),
    unary<[](auto x) { return std::tanh(x); }>("tanh"),
    unary<[](auto x) { return 1 / (1 + std::exp(-x)); }>("sigmoid"),
    unary<[](auto x) { return std::floor(x); }>("floor"),
    unary<[](auto x) { return std::erf(x); }>("erf"),
    unary<[](auto x) { return std::ceil(x); }>("ceil"),
    unary<[](auto x) { return std::nearbyint(x); }>("round"),
    unary<[](auto x) { return std::trunc(x); }>("trunc"),
    unary<[](auto x) { return 0 < x    ? 1
                              : x < 0  ? -1
                              : x == 0 ? 0
                                       : x; }>("sign"),
    unary<[](auto x) { return std::expm1(x); }>("expm1"),
    unary<[](auto x) { return std::log1p(x); }>("log1p"),
    unary<[](auto x) { return std::log2(x); }>("log2"),
    unary<[](auto x) { return std::log10(x); }>("log10"),
    unary<[](auto x) { return std::tan(x); }>("tan"),
    unary<[](auto x) { return std::sinh(x); }>("sinh"),
    unary<[](auto x) { return std::cosh(x); }>("cosh"),
    unary<[](auto x) { return std::asin(x); }>("asin"),
    unary<[](auto x) { return std::acos(x); }>("acos"),
    unary<[](auto x) { return std::atan(x); }>("atan"),
    unary<[](auto x) { return std::asinh(x); }>("asinh"),
    unary<[](auto x) { return std::acosh(x); }>("acosh"),
    unary<[](auto x) { return std::atanh(x); }>("atanh"),
};

}  // namespace

std::unique_ptr<Kernel> make_typed_unary(const abi::KernelRequest& request, const MakeContext&) {
  if (!is_elementwise_by_rows(request, 1)) return nullptr;
  const DType dtype = request.inputs[0].dtype;
  if (!is_floating(dtype) || request.outputs[0].dtype != dtype) return nullptr;
  for (const Unary& unary : kUnary) {
    if (std::string_view(unary.op) != request.op) continue;
    return Elementwise(request, dtype == DType::f64 ? unary.f64 : unary.f32).through_f32(is_half(dtype));
  }
  return nullptr;
}

}  // namespace gabbro::cpu::GABBRO_ISA
