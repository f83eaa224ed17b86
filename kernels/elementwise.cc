// Elementwise functions, of f16 and bf16 computed in f32. maximum, minimum and clamp of a NaN are NaN; `round` goes to
// the even one of two. Integers wrap around; `div` truncates and `floor_divide` rounds down, both give 0 by zero, as
// does `remainder`, whose sign is the divisor's; a negative power of anything but ±1 is 0.
#include "kernels/strided_access.h"

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
  GPU_FUNCTION static float of(float x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
};

// By rational approximations that meet at 0.92, within 1 unit in the last place (every 2^-11 of ±5, against double).
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
// x · Φ(x) (Hendrycks & Gimpel 2016), and its approximation by tanh.
struct Gelu {
  GPU_FUNCTION static float of(float x) { return 0.5f * x * (1 + Erf::of(x * 0.707106781f)); }
};
struct GeluTanh {
  GPU_FUNCTION static float of(float x) { return 0.5f * x * (1 + tanh(0.797884561f * fma(0.044715f * x * x, x, x))); }
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
  GPU_FUNCTION static float of(float a, float b) { return a * b; }
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
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
  template <class T>
  GPU_FUNCTION static T of(T a, T b) {
    if (b == 0 || is_minus_one(b)) return 0;
    const T rest = static_cast<T>(a % b);
    return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
  }
};
// Of floats: (a - rest) / b, which is close to an integer, rounded to it.
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
// By a negative number of bits, or by all of them, nothing is left but the sign.
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

// What functions take for an element, and how the element is made of what they give.
template <class T>
GPU_FUNCTION inline T widened(T x) {
  return x;
}
GPU_FUNCTION inline float widened(Half x) { return to_float(x); }
GPU_FUNCTION inline float widened(BFloat x) { return to_float(x); }
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

template <class F, class T>
GPU_FUNCTION inline void unary(const ElementwiseArgs& a) {
  const auto* x = static_cast<const T*>(a.in[0]);
  auto* y = static_cast<T*>(a.out);
  for_elements<T, 1>(
      a.axes, [&](const i64* at) { return Narrowed<T>::of(F::of(widened(x[at[0]]))); },
      [&](i64 i, T value) { y[i] = value; });
}

template <class F, class T, class Result>
GPU_FUNCTION inline void binary(const ElementwiseArgs& a) {
  const T *x0 = static_cast<const T*>(a.in[0]), *x1 = static_cast<const T*>(a.in[1]);
  auto* y = static_cast<Result*>(a.out);
  for_elements<Result, 2>(
      a.axes, [&](const i64* at) { return Narrowed<Result>::of(F::of(widened(x0[at[0]]), widened(x1[at[1]]))); },
      [&](i64 i, Result value) { y[i] = value; });
}

// x, lowest, highest.
template <class T>
GPU_FUNCTION inline void clamp(const ElementwiseArgs& a) {
  const T *x = static_cast<const T*>(a.in[0]), *low = static_cast<const T*>(a.in[1]),
          *high = static_cast<const T*>(a.in[2]);
  auto* y = static_cast<T*>(a.out);
  for_elements<T, 3>(
      a.axes,
      [&](const i64* at) {
        return Narrowed<T>::of(Minimum::of(Maximum::of(widened(x[at[0]]), widened(low[at[1]])), widened(high[at[2]])));
      },
      [&](i64 i, T value) { y[i] = value; });
}

template <class T>
GPU_FUNCTION inline void where(const ElementwiseArgs& a) {
  const auto* condition = static_cast<const u8*>(a.in[0]);
  const T *x0 = static_cast<const T*>(a.in[1]), *x1 = static_cast<const T*>(a.in[2]);
  auto* y = static_cast<T*>(a.out);
  for_elements<T, 3>(
      a.axes, [&](const i64* at) { return condition[at[0]] != 0 ? x0[at[1]] : x1[at[2]]; },
      [&](i64 i, T value) { y[i] = value; });
}

template <class T>
GPU_FUNCTION inline void copy(const ElementwiseArgs& a) {
  const auto* x = static_cast<const T*>(a.in[0]);
  auto* y = static_cast<T*>(a.out);
  for_elements<T, 1>(
      a.axes, [&](const i64* at) { return x[at[0]]; }, [&](i64 i, T value) { y[i] = value; });
}

template <class T>
GPU_FUNCTION inline void concat(const ConcatArgs& a) {
  const auto* x = static_cast<const T*>(a.in);
  auto* y = static_cast<T*>(a.out);
  for_elements<T, 1>(
      a.axes, [&](const i64* at) { return x[at[0]]; },
      [&](i64 i, T value) { y[i / a.inner * a.outer + a.before + i % a.inner] = value; });
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_UNARY(name, F)                                                                                     \
  GPU_KERNEL(name##_f32, 256, gabbro::gpu::ElementwiseArgs, unary<gabbro::gpu::GABBRO_GPU::F, float>)             \
  GPU_KERNEL(name##_f16, 256, gabbro::gpu::ElementwiseArgs, unary<gabbro::gpu::GABBRO_GPU::F, gabbro::gpu::Half>) \
  GPU_KERNEL(name##_bf16, 256, gabbro::gpu::ElementwiseArgs, unary<gabbro::gpu::GABBRO_GPU::F, gabbro::gpu::BFloat>)
GABBRO_UNARY(neg, Neg)
GABBRO_UNARY(abs, Abs)
GABBRO_UNARY(exp, Exp)
GABBRO_UNARY(log, Log)
GABBRO_UNARY(sqrt, Sqrt)
GABBRO_UNARY(rsqrt, Rsqrt)
GABBRO_UNARY(sin, Sin)
GABBRO_UNARY(cos, Cos)
GABBRO_UNARY(tanh, Tanh)
GABBRO_UNARY(sigmoid, Sigmoid)
GABBRO_UNARY(floor, Floor)
GABBRO_UNARY(ceil, Ceil)
GABBRO_UNARY(round, Round)
GABBRO_UNARY(trunc, Trunc)
GABBRO_UNARY(expm1, Expm1)
GABBRO_UNARY(log1p, Log1p)
GABBRO_UNARY(log2, Log2)
GABBRO_UNARY(log10, Log10)
GABBRO_UNARY(tan, Tan)
GABBRO_UNARY(sinh, Sinh)
GABBRO_UNARY(cosh, Cosh)
GABBRO_UNARY(asin, Asin)
GABBRO_UNARY(acos, Acos)
GABBRO_UNARY(atan, Atan)
GABBRO_UNARY(asinh, Asinh)
GABBRO_UNARY(acosh, Acosh)
GABBRO_UNARY(atanh, Atanh)
GABBRO_UNARY(sign, Sign)
GABBRO_UNARY(erf, Erf)
GABBRO_UNARY(relu, Relu)
GABBRO_UNARY(silu, Silu)
GABBRO_UNARY(gelu, Gelu)
GABBRO_UNARY(gelu_tanh, GeluTanh)

#define GABBRO_ARITHMETIC_OF(name, F, dtype, T) \
  GPU_KERNEL(name##_##dtype, 256, gabbro::gpu::ElementwiseArgs, binary<gabbro::gpu::GABBRO_GPU::F, T, T>)
#define GABBRO_OF_FLOATS(name, F)                       \
  GABBRO_ARITHMETIC_OF(name, F, f32, float)             \
  GABBRO_ARITHMETIC_OF(name, F, f16, gabbro::gpu::Half) \
  GABBRO_ARITHMETIC_OF(name, F, bf16, gabbro::gpu::BFloat)
#define GABBRO_OF_INTEGERS(name, F)                    \
  GABBRO_ARITHMETIC_OF(name, F, i8, gabbro::gpu::i8)   \
  GABBRO_ARITHMETIC_OF(name, F, u8, gabbro::gpu::u8)   \
  GABBRO_ARITHMETIC_OF(name, F, i16, gabbro::gpu::i16) \
  GABBRO_ARITHMETIC_OF(name, F, i32, gabbro::gpu::i32) \
  GABBRO_ARITHMETIC_OF(name, F, i64, gabbro::gpu::i64)
#define GABBRO_ARITHMETIC(name, F) \
  GABBRO_OF_FLOATS(name, F)        \
  GABBRO_OF_INTEGERS(name, F)
GABBRO_ARITHMETIC(add, Add)
GABBRO_ARITHMETIC(sub, Sub)
GABBRO_ARITHMETIC(mul, Mul)
GABBRO_ARITHMETIC(div, Div)
GABBRO_ARITHMETIC(pow, Pow)
GABBRO_ARITHMETIC(maximum, Maximum)
GABBRO_ARITHMETIC(minimum, Minimum)
GABBRO_ARITHMETIC(floor_divide, FloorDivide)
GABBRO_ARITHMETIC(remainder, Remainder)
GABBRO_OF_FLOATS(atan2, Atan2)
GABBRO_OF_FLOATS(hypot, Hypot)
GABBRO_OF_INTEGERS(bitwise_and, BitwiseAnd)
GABBRO_OF_INTEGERS(bitwise_or, BitwiseOr)
GABBRO_OF_INTEGERS(bitwise_xor, BitwiseXor)
GABBRO_OF_INTEGERS(left_shift, LeftShift)
GABBRO_OF_INTEGERS(right_shift, RightShift)

#define GABBRO_COMPARISON_OF(name, F, dtype, T) \
  GPU_KERNEL(name##_##dtype, 256, gabbro::gpu::ElementwiseArgs, binary<gabbro::gpu::GABBRO_GPU::F, T, gabbro::gpu::u8>)
#define GABBRO_COMPARISON(name, F)                         \
  GABBRO_COMPARISON_OF(name, F, f32, float)                \
  GABBRO_COMPARISON_OF(name, F, f16, gabbro::gpu::Half)    \
  GABBRO_COMPARISON_OF(name, F, bf16, gabbro::gpu::BFloat) \
  GABBRO_COMPARISON_OF(name, F, i8, gabbro::gpu::i8)       \
  GABBRO_COMPARISON_OF(name, F, u8, gabbro::gpu::u8)       \
  GABBRO_COMPARISON_OF(name, F, i16, gabbro::gpu::i16)     \
  GABBRO_COMPARISON_OF(name, F, i32, gabbro::gpu::i32)     \
  GABBRO_COMPARISON_OF(name, F, i64, gabbro::gpu::i64)
GABBRO_COMPARISON(eq, Equal)
GABBRO_COMPARISON(ne, NotEqual)
GABBRO_COMPARISON(lt, Less)
GABBRO_COMPARISON(le, LessEqual)
GABBRO_COMPARISON(gt, Greater)
GABBRO_COMPARISON(ge, GreaterEqual)

#define GABBRO_LOGICAL(name, F)                              \
  GPU_KERNEL(name##_bool, 256, gabbro::gpu::ElementwiseArgs, \
             binary<gabbro::gpu::GABBRO_GPU::F, gabbro::gpu::u8, gabbro::gpu::u8>)
GABBRO_LOGICAL(logical_and, LogicalAnd)
GABBRO_LOGICAL(logical_or, LogicalOr)

GPU_KERNEL(clamp_f32, 256, gabbro::gpu::ElementwiseArgs, clamp<float>)
GPU_KERNEL(clamp_f16, 256, gabbro::gpu::ElementwiseArgs, clamp<gabbro::gpu::Half>)
GPU_KERNEL(clamp_bf16, 256, gabbro::gpu::ElementwiseArgs, clamp<gabbro::gpu::BFloat>)
GPU_KERNEL(clamp_i32, 256, gabbro::gpu::ElementwiseArgs, clamp<gabbro::gpu::i32>)

#define GABBRO_MOVES(T)                                                           \
  GPU_KERNEL(copy_##T, 256, gabbro::gpu::ElementwiseArgs, copy<gabbro::gpu::T>)   \
  GPU_KERNEL(where_##T, 256, gabbro::gpu::ElementwiseArgs, where<gabbro::gpu::T>) \
  GPU_KERNEL(concat_##T, 256, gabbro::gpu::ConcatArgs, concat<gabbro::gpu::T>)
GABBRO_MOVES(u8)
GABBRO_MOVES(u16)
GABBRO_MOVES(u32)
GABBRO_MOVES(u64)
