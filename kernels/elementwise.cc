// Elementwise functions. maximum and minimum of a NaN are NaN. Of i32: arithmetic wraps around, division truncates
// towards zero and by zero gives 0; a negative power of anything but ±1 is 0.
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

template <class F>
GPU_FUNCTION inline void unary(const ElementwiseArgs& a) {
  const auto* x = static_cast<const float*>(a.in[0]);
  auto* y = static_cast<float*>(a.out);
  for_elements<float, 1>(
      a.axes, [&](const i64* at) { return F::of(x[at[0]]); }, [&](i64 i, float value) { y[i] = value; });
}

template <class F, class T, class Result>
GPU_FUNCTION inline void binary(const ElementwiseArgs& a) {
  const T *x0 = static_cast<const T*>(a.in[0]), *x1 = static_cast<const T*>(a.in[1]);
  auto* y = static_cast<Result*>(a.out);
  for_elements<Result, 2>(
      a.axes, [&](const i64* at) { return F::of(x0[at[0]], x1[at[1]]); }, [&](i64 i, Result value) { y[i] = value; });
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

#define GABBRO_UNARY(name, F) \
  GPU_KERNEL(name##_f32, 256, gabbro::gpu::ElementwiseArgs, unary<gabbro::gpu::GABBRO_GPU::F>)
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

#define GABBRO_ARITHMETIC(name, F)                                                                            \
  GPU_KERNEL(name##_f32, 256, gabbro::gpu::ElementwiseArgs, binary<gabbro::gpu::GABBRO_GPU::F, float, float>) \
  GPU_KERNEL(name##_i32, 256, gabbro::gpu::ElementwiseArgs,                                                   \
             binary<gabbro::gpu::GABBRO_GPU::F, gabbro::gpu::i32, gabbro::gpu::i32>)
GABBRO_ARITHMETIC(add, Add)
GABBRO_ARITHMETIC(sub, Sub)
GABBRO_ARITHMETIC(mul, Mul)
GABBRO_ARITHMETIC(div, Div)
GABBRO_ARITHMETIC(pow, Pow)
GABBRO_ARITHMETIC(maximum, Maximum)
GABBRO_ARITHMETIC(minimum, Minimum)

#define GABBRO_COMPARISON(name, F)                                       \
  GPU_KERNEL(name##_f32, 256, gabbro::gpu::ElementwiseArgs,              \
             binary<gabbro::gpu::GABBRO_GPU::F, float, gabbro::gpu::u8>) \
  GPU_KERNEL(name##_i32, 256, gabbro::gpu::ElementwiseArgs,              \
             binary<gabbro::gpu::GABBRO_GPU::F, gabbro::gpu::i32, gabbro::gpu::u8>)
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

#define GABBRO_MOVES(T)                                                           \
  GPU_KERNEL(copy_##T, 256, gabbro::gpu::ElementwiseArgs, copy<gabbro::gpu::T>)   \
  GPU_KERNEL(where_##T, 256, gabbro::gpu::ElementwiseArgs, where<gabbro::gpu::T>) \
  GPU_KERNEL(concat_##T, 256, gabbro::gpu::ConcatArgs, concat<gabbro::gpu::T>)
GABBRO_MOVES(u8)
GABBRO_MOVES(u16)
GABBRO_MOVES(u32)
GABBRO_MOVES(u64)
