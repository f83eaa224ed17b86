// Elementwise functions, of f16 and bf16 computed in f32. maximum, minimum and clamp of a NaN are NaN. Of i32:
// arithmetic wraps around, division truncates towards zero and by zero gives 0; a negative power of anything but ±1 is
// 0.
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

GPU_FUNCTION inline i32 wrapped(u32 bits) { return static_cast<i32>(bits); }

struct Add {
  GPU_FUNCTION static float of(float a, float b) { return a + b; }
  GPU_FUNCTION static i32 of(i32 a, i32 b) { return wrapped(static_cast<u32>(a) + static_cast<u32>(b)); }
};
struct Sub {
  GPU_FUNCTION static float of(float a, float b) { return a - b; }
  GPU_FUNCTION static i32 of(i32 a, i32 b) { return wrapped(static_cast<u32>(a) - static_cast<u32>(b)); }
};
struct Mul {
  GPU_FUNCTION static float of(float a, float b) { return a * b; }
  GPU_FUNCTION static i32 of(i32 a, i32 b) { return wrapped(static_cast<u32>(a) * static_cast<u32>(b)); }
};
struct Div {
  GPU_FUNCTION static float of(float a, float b) { return a / b; }
  GPU_FUNCTION static i32 of(i32 a, i32 b) {
    if (b == 0) return 0;
    return b == -1 ? wrapped(0u - static_cast<u32>(a)) : a / b;
  }
};
struct Pow {
  GPU_FUNCTION static float of(float a, float b) { return pow(a, b); }
  GPU_FUNCTION static i32 of(i32 a, i32 b) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
    u32 power = 1;
    for (u32 base = static_cast<u32>(a), left = static_cast<u32>(b); left != 0; left >>= 1, base *= base) {
      if ((left & 1u) != 0) power *= base;
    }
    return wrapped(power);
  }
};
struct Maximum {
  GPU_FUNCTION static float of(float a, float b) { return a > b || a != a ? a : b; }
  GPU_FUNCTION static i32 of(i32 a, i32 b) { return a > b ? a : b; }
};
struct Minimum {
  GPU_FUNCTION static float of(float a, float b) { return a < b || a != a ? a : b; }
  GPU_FUNCTION static i32 of(i32 a, i32 b) { return a < b ? a : b; }
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
GABBRO_UNARY(erf, Erf)
GABBRO_UNARY(relu, Relu)
GABBRO_UNARY(silu, Silu)
GABBRO_UNARY(gelu, Gelu)
GABBRO_UNARY(gelu_tanh, GeluTanh)

#define GABBRO_ARITHMETIC_OF(name, F, dtype, T) \
  GPU_KERNEL(name##_##dtype, 256, gabbro::gpu::ElementwiseArgs, binary<gabbro::gpu::GABBRO_GPU::F, T, T>)
#define GABBRO_ARITHMETIC(name, F)                         \
  GABBRO_ARITHMETIC_OF(name, F, f32, float)                \
  GABBRO_ARITHMETIC_OF(name, F, f16, gabbro::gpu::Half)    \
  GABBRO_ARITHMETIC_OF(name, F, bf16, gabbro::gpu::BFloat) \
  GABBRO_ARITHMETIC_OF(name, F, i32, gabbro::gpu::i32)
GABBRO_ARITHMETIC(add, Add)
GABBRO_ARITHMETIC(sub, Sub)
GABBRO_ARITHMETIC(mul, Mul)
GABBRO_ARITHMETIC(div, Div)
GABBRO_ARITHMETIC(pow, Pow)
GABBRO_ARITHMETIC(maximum, Maximum)
GABBRO_ARITHMETIC(minimum, Minimum)

#define GABBRO_COMPARISON_OF(name, F, dtype, T) \
  GPU_KERNEL(name##_##dtype, 256, gabbro::gpu::ElementwiseArgs, binary<gabbro::gpu::GABBRO_GPU::F, T, gabbro::gpu::u8>)
#define GABBRO_COMPARISON(name, F)                         \
  GABBRO_COMPARISON_OF(name, F, f32, float)                \
  GABBRO_COMPARISON_OF(name, F, f16, gabbro::gpu::Half)    \
  GABBRO_COMPARISON_OF(name, F, bf16, gabbro::gpu::BFloat) \
  GABBRO_COMPARISON_OF(name, F, i32, gabbro::gpu::i32)
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
