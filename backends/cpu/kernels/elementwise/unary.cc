// Elementwise functions of one tensor of f32, or of f16 and bf16 by f32.
#include <cmath>
#include <string_view>

#include "backends/cpu/kernels/attention/rope_math.h"
#include "backends/cpu/kernels/elementwise/elementwise.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/simd/math.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

template <float (*kFunction)(float)>
void row_of(const Row& row) {
  map_row<float, float>(row, [](float x) { return kFunction(x); });
}

// f32, and f16 and bf16, which are converted in registers.
template <class T, F32 (*kFunction)(F32)>
void vector_row_of(const Row& row) {
  const T* x = static_cast<const T*>(row.in[0]);
  T* out = static_cast<T*>(row.out);
  int64_t i = 0;
  if (row.stride[0] == 1) {
    for (; i + kLanes <= row.count; i += kLanes) store_rounded(out + i, kFunction(load_as_f32(x + i)));
  }
  for (; i < row.count; i += kLanes) {
    const int count = static_cast<int>(std::min<int64_t>(kLanes, row.count - i));
    float lanes[kLanes] = {};
    for (int j = 0; j < count; ++j) lanes[j] = static_cast<float>(x[(i + j) * row.stride[0]]);
    store_some(out + i, kFunction(load(lanes)), count);
  }
}

// Uses sine_cosine() where that is exact enough, else the C library.
template <bool kSine>
F32 sine_or_cosine(F32 x) {
  if (!any(splat(kMaxReducible) < abs(x))) {
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

// Rational approximations that meet at 0.92, within 1 unit in the last place (every 2⁻¹¹ of ±5, against double).
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

// x · Φ(x) (Hendrycks & Gimpel 2016) as max(x, 0) - |x| · Φ(-|x|), so that nothing cancels where x is negative: with
// t = |x|, Φ(-t) is e^(-t²/2) times u = 1 / (1 + 0.23 t) times a polynomial in u (fitted for t up to 10, within 4e-8).
// Of e^(-t²/2) = 2^(f + n), the product in f is taken with its rounding error. Within 7 times 2⁻²⁴ of the result above
// -10 (every 2⁻⁹, against double); below, where it is less than 8e-23, 0.
[[gnu::always_inline]] inline F32 gelu(F32 x) {
  constexpr float kEnd = 10, kHalfLog2 = 0.721347511f;  // ½ log₂ e
  const F32 size = abs(min(splat(kEnd), x));            // infinite for -∞ alone: times 0, that is NaN
  const F32 t = min(splat(kEnd), size);
  const F32 u = splat(1.0f) / fma(t, splat(0.23f), splat(1.0f));
  const F32 scaled = polynomial(splat(-0.0767338874f), u, 0.281448894f, -0.258255776f, 0.276848332f, -0.0142832272f,
                                0.11070267f, 0.0883015837f, 0.0919713906f);
  const F32 a = t * splat(-kHalfLog2), n = round_even(a * t);
  const F32 lost = fma(t, splat(kHalfLog2), a);
  const F32 f = fma(-lost, t, fma(a, t, -n));
  const F32 power = polynomial(splat(1.53457905e-4f), f, 1.33999443e-3f, 9.61848914e-3f, 5.55032874e-2f, 0.240226469f,
                               0.693147206f, 1.0f);  // 2^f, within 2e-9
  const F32 tail = zero_unless(size < splat(kEnd), scale_by_normal_power(u * scaled * power, n));
  return fma(-size, tail, max(splat(-0.0f), x));  // -0 far below, as in PyTorch
}
// For f16 and bf16, within 2⁻¹⁵ of the result: with fewer terms, and the rounded exponent.
[[gnu::always_inline]] inline F32 gelu_f16(F32 x) {
  constexpr float kEnd = 10, kHalfLog2 = 0.721347511f;
  const F32 size = abs(min(splat(kEnd), x));
  const F32 t = min(splat(kEnd), size);
  const F32 u = splat(1.0f) / fma(t, splat(0.37f), splat(1.0f));
  const F32 scaled = polynomial(splat(-0.0930308131f), u, 0.216139363f, 0.0710895508f, 0.159068046f, 0.146724557f);
  const F32 power = t * splat(-kHalfLog2) * t, n = round_even(power), f = power - n;
  const F32 two =
      polynomial(splat(9.57009908e-3f), f, 5.59178601e-2f, 0.240247449f, 0.693121815f, 0.999999261f);  // 2^f
  const F32 tail = zero_unless(size < splat(kEnd), scale_by_normal_power(u * scaled * two, n));
  return fma(-size, tail, max(splat(-0.0f), x));
}
// Its approximation by tanh.
[[gnu::always_inline]] inline F32 gelu_tanh(F32 x) {
  const F32 inner = fma(splat(0.044715f) * x * x, x, x);
  return splat(0.5f) * x * (splat(1.0f) + tanh(splat(0.797884561f) * inner));
}

struct Unary {
  const char* op;
  RowFunction row;
  RowFunction f16 = nullptr, bf16 = nullptr;  // null: by f32
};

template <F32 (*kFunction)(F32), F32 (*kF16Function)(F32) = kFunction>
constexpr Unary by_vectors(const char* op) {
  return {op, vector_row_of<float, kFunction>, vector_row_of<Half, kF16Function>, vector_row_of<BFloat, kF16Function>};
}

constexpr Unary kUnary[] = {
    {"neg", row_of<[](float x) { return -x; }>},
    {"abs", row_of<[](float x) { return std::fabs(x); }>},
    by_vectors<exp>("exp"),
    {"sqrt", row_of<[](float x) { return std::sqrt(x); }>},
    {"rsqrt", row_of<[](float x) { return 1.0f / std::sqrt(x); }>},
    by_vectors<sine_or_cosine<true>>("sin"),
    by_vectors<sine_or_cosine<false>>("cos"),
    by_vectors<tanh>("tanh"),
    by_vectors<sigmoid>("sigmoid"),
    {"floor", row_of<[](float x) { return std::floor(x); }>},
    by_vectors<erf>("erf"),
    {"relu", row_of<[](float x) { return x < 0 ? 0 : x; }>},
    by_vectors<silu>("silu"),
    by_vectors<gelu, gelu_f16>("gelu"),
    by_vectors<gelu_tanh>("gelu_tanh"),
};

}  // namespace

std::unique_ptr<Kernel> make_unary(const abi::KernelRequest& request, const MakeContext&) {
  if (!is_elementwise_by_rows(request, 1)) return nullptr;
  const DType dtype = request.inputs[0].dtype;
  if ((dtype != DType::f32 && !is_half(dtype)) || request.outputs[0].dtype != dtype) return nullptr;
  for (const Unary& unary : kUnary) {
    if (std::string_view(unary.op) == request.op) return by_rows(request, unary.row, unary.f16, unary.bf16);
  }
  return nullptr;
}

}  // namespace gabbro::cpu::GABBRO_ISA
