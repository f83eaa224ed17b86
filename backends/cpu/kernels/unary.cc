// Elementwise functions of one f32 tensor.
#include <cmath>
#include <string_view>

#include "backends/cpu/kernels/elementwise.h"
#include "backends/cpu/kernels/kernels.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

template <float (*kFunction)(float)>
void row_of(const Row& row) {
  map_row<float, float>(row, [](float x) { return kFunction(x); });
}

struct Unary {
  const char* op;
  RowFunction row;
};

constexpr Unary kUnary[] = {
    {"neg", row_of<[](float x) { return -x; }>},
    {"abs", row_of<[](float x) { return std::fabs(x); }>},
    {"exp", row_of<[](float x) { return std::exp(x); }>},
    {"log", row_of<[](float x) { return std::log(x); }>},
    {"sqrt", row_of<[](float x) { return std::sqrt(x); }>},
    {"rsqrt", row_of<[](float x) { return 1.0f / std::sqrt(x); }>},
    {"sin", row_of<[](float x) { return std::sin(x); }>},
    {"cos", row_of<[](float x) { return std::cos(x); }>},
    {"tanh", row_of<[](float x) { return std::tanh(x); }>},
    {"sigmoid", row_of<[](float x) { return 1.0f / (1.0f + std::exp(-x)); }>},
    {"floor", row_of<[](float x) { return std::floor(x); }>},
};

}  // namespace

std::unique_ptr<Kernel> make_unary(const abi::KernelRequest& request, const MakeContext&) {
  if (!is_elementwise(request, 1) || request.inputs[0].dtype != DType::f32) return nullptr;
  if (request.outputs[0].dtype != DType::f32) return nullptr;
  for (const Unary& unary : kUnary) {
    if (std::string_view(unary.op) == request.op) return std::make_unique<Elementwise>(request, unary.row);
  }
  return nullptr;
}

}  // namespace gabbro::cpu::GABBRO_ISA
