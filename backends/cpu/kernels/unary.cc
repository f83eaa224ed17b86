// Elementwise functions of one f32 tensor.
#include <cmath>
#include <string_view>

#include "backends/cpu/kernels/elementwise.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/rope_math.h"
#include "backends/cpu/simd/math.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

template <float (*kFunction)(float)>
void row_of(const Row& row) {
  map_row<float, float>(row, [](float x) { return kFunction(x); });
}

template <F32 (*kFunction)(F32)>
void vector_row_of(const Row& row) {
  const float* x = static_cast<const float*>(row.in[0]);
  float* out = static_cast<float*>(row.out);
  for (int64_t i = 0; i < row.count; i += kLanes) {
    const int count = static_cast<int>(std::min<int64_t>(kLanes, row.count - i));
    if (row.stride[0] == 1) {
      store_some(out + i, kFunction(load_some(x + i, count)), count);
      continue;
    }
    float lanes[kLanes] = {};
    for (int j = 0; j < count; ++j) lanes[j] = x[(i + j) * row.stride[0]];
    store_some(out + i, kFunction(load(lanes)), count);
  }
}

// By sine_cosine() where that is exact enough, else by the C library.
template <bool kSine>
F32 sine_or_cosine(F32 x) {
  if (reduce_max(abs(x)) <= kMaxReducible) return kSine ? sine_cosine(x).sine : sine_cosine(x).cosine;
  float lanes[kLanes];
  store(lanes, x);
  for (float& lane : lanes) lane = kSine ? std::sin(lane) : std::cos(lane);
  return load(lanes);
}

struct Unary {
  const char* op;
  RowFunction row;
};

constexpr Unary kUnary[] = {
    {"neg", row_of<[](float x) { return -x; }>},
    {"abs", row_of<[](float x) { return std::fabs(x); }>},
    {"exp", vector_row_of<exp>},
    {"log", row_of<[](float x) { return std::log(x); }>},
    {"sqrt", row_of<[](float x) { return std::sqrt(x); }>},
    {"rsqrt", row_of<[](float x) { return 1.0f / std::sqrt(x); }>},
    {"sin", vector_row_of<sine_or_cosine<true>>},
    {"cos", vector_row_of<sine_or_cosine<false>>},
    {"tanh", vector_row_of<tanh>},
    {"sigmoid", vector_row_of<sigmoid>},
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
