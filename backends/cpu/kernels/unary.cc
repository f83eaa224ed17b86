// Elementwise functions of one tensor of f32, or of f16 and bf16 by f32.
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
  if (reduce_max(abs(x)) <= kMaxReducible) {
    if constexpr (!kSine) return sine_cosine(x).cosine;
    return select(abs(x) < splat(0x1p-12f), x, sine_cosine(x).sine);  // -0 of -0; x³/6 is less than half a unit
  }
  float lanes[kLanes];
  store(lanes, x);
  for (float& lane : lanes) lane = kSine ? std::sin(lane) : std::cos(lane);
  return load(lanes);
}

// coefficients[0] · x^(n - 1) + ...: as a pack, for the compiler keeps a loop over a list as one.
template <class... Rest>
[[gnu::always_inline]] inline F32 polynomial(F32 sum, F32 x, Rest... coefficients) {
  ((sum = fma(sum, x, splat(coefficients))), ...);
  return sum;
}

// By rational approximations that meet at 0.92, within 1 unit in the last place (every 2⁻¹¹ of ±5, against double).
[[gnu::always_inline]] inline F32 erf(F32 x) {
  const F32 t = abs(x), s = x * x;
  F32 far = fma(splat(-1.72853470e-5f), t, splat(3.83197126e-4f));
  far = fma(far, s, fma(splat(-3.88396438e-3f), t, splat(2.42546219e-2f)));
  far = polynomial(far, t, -1.06777877e-1f, -6.34846687e-1f, -1.28717512e-1f);
  far = splat(1.0f) - exp_of_negative(fma(far, t, splat(0.0f) - t));
  F32 near = fma(splat(-5.96761703e-4f), s, splat(4.99119423e-3f));
  near = polynomial(near, s, -2.67681349e-2f, 1.12819925e-1f, -3.76125336e-1f, 1.28379166e-1f);
  const F32 whole = select(x < splat(0.0f), splat(0.0f) - far, far);
  return select(splat(0.921875f) < t, whole, fma(near, x, x));
}

// x · Φ(x) (Hendrycks & Gimpel 2016). Φ(-|x|) = ½ erfc(t) with t = |x| / √2; erfc(t) · e^(t²) is u = 1 / (1 + 0.3 t)
// times a polynomial in u (fitted for t up to 10, within 2e-8), and t² is taken with its rounding error. So nothing
// cancels where x is negative: within 7 units in the last place above -9 (every 2⁻⁹, against 30 digits).
[[gnu::always_inline]] inline F32 gelu(F32 x) {
  const F32 bounded = max(splat(-14.5f), min(splat(14.5f), x));  // beyond, Φ is 0 or 1
  const F32 u = splat(1.0f) / fma(abs(bounded), splat(0.212132034f), splat(1.0f));
  const F32 v = u - splat(0.625f), v2 = v * v, v4 = v2 * v2;
  // In pairs (Estrin's scheme): a shorter chain than one term after the other.
  const F32 low =
      fma(polynomial(splat(1.51793313f), v, 1.25046408f), v2, polynomial(splat(0.804314613f), v, 0.408633083f));
  const F32 high =
      fma(polynomial(splat(-0.162051275f), v, 0.195404246f), v2, polynomial(splat(0.83899194f), v, 1.38099074f));
  const F32 scaled = fma(fma(v4, splat(-0.129523143f), high), v4, low);
  const F32 half = bounded * splat(-0.5f), square = half * bounded;  // -t²
  const F32 lost = fma(half, bounded, splat(0.0f) - square);
  const F32 power = exp_of_negative(square);
  const F32 tail = splat(0.5f) * u * scaled * fma(lost, power, power);
  // However large x is: what is left at -14.5 is no factor of it.
  const F32 below = x * select(x < splat(-14.5f), splat(0.0f), tail);
  return select(splat(0.0f) < x, fma(splat(0.0f) - bounded, tail, x), below);
}
// Its approximation by tanh.
[[gnu::always_inline]] inline F32 gelu_tanh(F32 x) {
  const F32 inner = fma(splat(0.044715f) * x * x, x, x);
  return splat(0.5f) * x * (splat(1.0f) + tanh(splat(0.797884561f) * inner));
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
    {"erf", vector_row_of<erf>},
    {"relu", row_of<[](float x) { return x < 0 ? 0 : x; }>},
    {"silu", vector_row_of<silu>},
    {"gelu", vector_row_of<gelu>},
    {"gelu_tanh", vector_row_of<gelu_tanh>},
};

}  // namespace

std::unique_ptr<Kernel> make_unary(const abi::KernelRequest& request, const MakeContext&) {
  if (!is_elementwise(request, 1)) return nullptr;
  const DType dtype = request.inputs[0].dtype;
  if ((dtype != DType::f32 && !is_half(dtype)) || request.outputs[0].dtype != dtype) return nullptr;
  for (const Unary& unary : kUnary) {
    if (std::string_view(unary.op) == request.op) return Elementwise(request, unary.row).through_f32(is_half(dtype));
  }
  return nullptr;
}

}  // namespace gabbro::cpu::GABBRO_ISA
