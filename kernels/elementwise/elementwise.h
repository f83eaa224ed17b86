// Functions of elements; f16 and bf16 are computed in f32. maximum, minimum and clamp of a NaN are NaN; `round` goes to
// the even one of two. Integers wrap around; `div` truncates and `floor_divide` rounds down, both give 0 by zero, as
// does `remainder`, whose sign is the divisor's; a negative power of anything but ±1 is 0.
#pragma once

#include "kernels/elementwise/cast.h"

namespace gabbro::gpu::GABBRO_GPU {

struct Neg {
  GPU_FUNCTION static float of(float x) { return -x; }
};
struct Abs {
  GPU_FUNCTION static float of(float x) { return abs(x); }
};
struct Exp {
  GPU_FUNCTION static float of(float x) { return exp(x); }
};
struct Log {
  GPU_FUNCTION static float of(float x) { return log(x); }
};
struct Sqrt {
  GPU_FUNCTION static float of(float x) { return sqrt(x); }
};
struct Rsqrt {
  GPU_FUNCTION static float of(float x) { return 1 / sqrt(x); }
};
struct Sin {
  GPU_FUNCTION static float of(float x) { return sin(x); }
};
struct Cos {
  GPU_FUNCTION static float of(float x) { return cos(x); }
};
struct Tanh {
  GPU_FUNCTION static float of(float x) { return tanh(x); }
};
struct Sigmoid {
  GPU_FUNCTION static float of(float x) { return 1 / (1 + exp(-x)); }
};
struct Floor {
  GPU_FUNCTION static float of(float x) { return floor(x); }
};
struct Ceil {
  GPU_FUNCTION static float of(float x) { return ceil(x); }
};
struct Round {
  GPU_FUNCTION static float of(float x) { return round(x); }
};
struct Trunc {
  GPU_FUNCTION static float of(float x) { return trunc(x); }
};
struct Expm1 {
  GPU_FUNCTION static float of(float x) { return expm1(x); }
};
struct Log1p {
  GPU_FUNCTION static float of(float x) { return log1p(x); }
};
struct Log2 {
  GPU_FUNCTION static float of(float x) { return log2(x); }
};
struct Log10 {
  GPU_FUNCTION static float of(float x) { return log10(x); }
};
struct Tan {
  GPU_FUNCTION static float of(float x) { return tan(x); }
};
struct Sinh {
  GPU_FUNCTION static float of(float x) { return sinh(x); }
};
struct Cosh {
  GPU_FUNCTION static float of(float x) { return cosh(x); }
};
struct Asin {
  GPU_FUNCTION static float of(float x) { return asin(x); }
};
struct Acos {
  GPU_FUNCTION static float of(float x) { return acos(x); }
};
struct Atan {
  GPU_FUNCTION static float of(float x) { return atan(x); }
};
struct Asinh {
  GPU_FUNCTION static float of(float x) { return asinh(x); }
};
struct Acosh {
  GPU_FUNCTION static float of(float x) { return acosh(x); }
};
struct Atanh {
  GPU_FUNCTION static float of(float x) { return atanh(x); }
};
struct Sign {
  GPU_FUNCTION static float of(float x) { return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x; }  // 0 of -0; a NaN stays
};

// Rational approximations that meet at 0.92, within 1 unit in the last place (every 2^-11 of ±5, against double).
struct Erf {
  GPU_FUNCTION static float of(float x) {
    const float t = abs(x), s = x * x;
    if (t > 0.921875f) {
      float r = fma(-1.72853470e-5f, t, 3.83197126e-4f);
      r = fma(r, s, fma(-3.88396438e-3f, t, 2.42546219e-2f));
      r = fma(r, t, -1.06777877e-1f);
      r = fma(r, t, -6.34846687e-1f);
      r = fma(r, t, -1.28717512e-1f);
      const float size = 1 - exp(fma(r, t, -t));
      return x < 0 ? -size : size;
    }
    float r = fma(-5.96761703e-4f, s, 4.99119423e-3f);
    r = fma(r, s, -2.67681349e-2f);
    r = fma(r, s, 1.12819925e-1f);
    r = fma(r, s, -3.76125336e-1f);
    r = fma(r, s, 1.28379166e-1f);
    return fma(r, x, x);
  }
};
struct Relu {
  GPU_FUNCTION static float of(float x) { return x < 0 ? 0 : x; }
};
struct Silu {
  GPU_FUNCTION static float of(float x) { return x / (1 + exp(-x)); }
};
// x·Φ(x) (Hendrycks & Gimpel 2016) = max(x, 0) - |x|·Φ(-|x|), whose last factor keeps its leading digits where 1 + erf
// loses them: exp(-x²/2) times k times a polynomial in k = 1/(1 + 0.29·|x|), fitted for the least relative error up to
// 6.5 (1.3e-8; with what is rounded 7e-7 above -3). Infinity is as far away as 30, for infinity - infinity·0 would be
// no number; what -infinity·0 gives is none.
struct Gelu {
  GPU_FUNCTION static float of(float x) {
    const float size = abs(x), t = size > 30 ? 30 : size, k = quick_reciprocal(fma(0.29f, t, 1));
    float r = fma(0.039355120f, k, -0.19241754f);
    r = fma(r, k, 0.30388297f);
    r = fma(r, k, -0.14666601f);
    r = fma(r, k, 0.18082216f);
    r = fma(r, k, 0.079867144f);
    r = fma(r, k, 0.11973173f);
    r = fma(r, k, 0.11542443f);
    constexpr float kHalfLog2E = 0.72134752f;
    const float beyond = r * k * quick_exp2(-kHalfLog2E * t * t);  // Φ(-t)
    return x < 0 ? multiply(x, beyond) : fma(-t, beyond, x);
  }
};
// Its approximation: 0.5·x·(1 + tanh u), u = √(2/π)·(x + 0.044715·x³), is x / (1 + exp(-2u)).
struct GeluTanh {
  GPU_FUNCTION static float of(float x) {
    constexpr float kMinusTwoLog2E = -2.8853901f;
    return multiply(x, quick_reciprocal(1 + quick_exp2(kMinusTwoLog2E * 0.797884561f * fma(0.044715f * x * x, x, x))));
  }
};

// Integers wrap around: they are computed as unsigned numbers of at least 32 bits.
template <class T>
struct UnsignedOf {
  using Type = u32;
};
template <>
struct UnsignedOf<i64> {
  using Type = u64;
};
template <class T>
using Unsigned = typename UnsignedOf<T>::Type;

template <class T>
GPU_FUNCTION inline bool is_minus_one(T x) {
  return static_cast<T>(-1) < 0 && x == static_cast<T>(-1);
}

struct Add {
  GPU_FUNCTION static float of(float a, float b) { return a + b; }
  template <class T>
  GPU_FUNCTION static T of(T a, T b) {
    return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
  }
};
struct Sub {
  GPU_FUNCTION static float of(float a, float b) { return a - b; }
  template <class T>
  GPU_FUNCTION static T of(T a, T b) {
    return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
  }
};
struct Mul {
  GPU_FUNCTION static float of(float a, float b) { return multiply(a, b); }
  template <class T>
  GPU_FUNCTION static T of(T a, T b) {
    return static_cast<T>(static_cast<Unsigned<T>>(a) * static_cast<Unsigned<T>>(b));
  }
};
struct Div {
  GPU_FUNCTION static float of(float a, float b) { return a / b; }
  template <class T>
  GPU_FUNCTION static T of(T a, T b) {
    if (b == 0) return 0;
    return is_minus_one(b) ? Sub::of<T>(0, a) : static_cast<T>(a / b);
  }
};
struct Remainder {
  GPU_FUNCTION static float of(float a, float b) {
    const float rest = fmod(a, b);
    if (rest == 0) return b < 0 ? -0.0f : 0.0f;
    return (rest < 0) != (b < 0) ? rest + b : rest;
  }
  template <class T>
  GPU_FUNCTION static T of(T a, T b) {
    if (b == 0 || is_minus_one(b)) return 0;
    const T rest = static_cast<T>(a % b);
    return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
  }
};
// For floats: (a - remainder) / b is close to an integer, and is rounded to it.
struct FloorDivide {
  GPU_FUNCTION static float of(float a, float b) {
    if (b == 0) return a / b;
    const float rest = fmod(a, b), below = rest != 0 && (rest < 0) != (b < 0) ? 1 : 0;
    const float whole = round((a - rest) / b - below);
    return whole == 0 ? a / b * 0 : whole;  // with the sign of the quotient
  }
  template <class T>
  GPU_FUNCTION static T of(T a, T b) {
    const T quotient = Div::of(a, b);
    const bool rounded_up = b != 0 && !is_minus_one(b) && a % b != 0 && (a < 0) != (b < 0);
    return rounded_up ? static_cast<T>(quotient - 1) : quotient;
  }
};
struct Pow {
  GPU_FUNCTION static float of(float a, float b) { return pow(a, b); }
  template <class T>
  GPU_FUNCTION static T of(T a, T b) {
    if (b < 0) return a == 1 ? 1 : is_minus_one(a) ? static_cast<T>(b % 2 == 0 ? 1 : -1) : 0;
    Unsigned<T> power = 1, base = static_cast<Unsigned<T>>(a);
    for (auto left = static_cast<Unsigned<T>>(b); left != 0; left >>= 1, base *= base) {
      if ((left & 1u) != 0) power *= base;
    }
    return static_cast<T>(power);
  }
};
struct Atan2 {
  GPU_FUNCTION static float of(float a, float b) { return atan2(a, b); }
};
struct Hypot {
  GPU_FUNCTION static float of(float a, float b) { return hypot(a, b); }
};
struct BitwiseAnd {
  template <class T>
  GPU_FUNCTION static T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct BitwiseOr {
  template <class T>
  GPU_FUNCTION static T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct BitwiseXor {
  template <class T>
  GPU_FUNCTION static T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
// A negative shift, or one by all bits, leaves only the sign.
template <class T>
GPU_FUNCTION inline bool shifts_within(T bits) {
  return bits >= 0 && bits < static_cast<T>(sizeof(T) * 8);
}
struct LeftShift {
  template <class T>
  GPU_FUNCTION static T of(T a, T b) {
    return shifts_within(b) ? static_cast<T>(static_cast<Unsigned<T>>(a) << b) : static_cast<T>(0);
  }
};
struct RightShift {
  template <class T>
  GPU_FUNCTION static T of(T a, T b) {
    if (!shifts_within(b)) return static_cast<T>(a < 0 ? -1 : 0);
    return static_cast<T>(a >> b);
  }
};
struct Maximum {
  GPU_FUNCTION static float of(float a, float b) { return a > b || a != a ? a : b; }
  template <class T>
  GPU_FUNCTION static T of(T a, T b) {
    return a > b ? a : b;
  }
};
struct Minimum {
  GPU_FUNCTION static float of(float a, float b) { return a < b || a != a ? a : b; }
  template <class T>
  GPU_FUNCTION static T of(T a, T b) {
    return a < b ? a : b;
  }
};
struct Equal {
  template <class T>
  GPU_FUNCTION static u8 of(T a, T b) {
    return a == b;
  }
};
struct NotEqual {
  template <class T>
  GPU_FUNCTION static u8 of(T a, T b) {
    return a != b;
  }
};
struct Less {
  template <class T>
  GPU_FUNCTION static u8 of(T a, T b) {
    return a < b;
  }
};
struct LessEqual {
  template <class T>
  GPU_FUNCTION static u8 of(T a, T b) {
    return a <= b;
  }
};
struct Greater {
  template <class T>
  GPU_FUNCTION static u8 of(T a, T b) {
    return a > b;
  }
};
struct GreaterEqual {
  template <class T>
  GPU_FUNCTION static u8 of(T a, T b) {
    return a >= b;
  }
};
struct LogicalAnd {
  GPU_FUNCTION static u8 of(u8 a, u8 b) { return a != 0 && b != 0; }
};
struct LogicalOr {
  GPU_FUNCTION static u8 of(u8 a, u8 b) { return a != 0 || b != 0; }
};

// How an element is made of what functions give.
template <class T>
struct Narrowed {
  template <class V>
  GPU_FUNCTION static T of(V value) {
    return value;
  }
};
template <>
struct Narrowed<Half> {
  GPU_FUNCTION static Half of(float value) { return to_half(value); }
};
template <>
struct Narrowed<BFloat> {
  GPU_FUNCTION static BFloat of(float value) { return to_bfloat(value); }
};

}  // namespace gabbro::gpu::GABBRO_GPU
