// The elementwise ops by family, each with its function in elementwise.h: X(op, Function).
// elementwise.cc makes kernels of them, and the host's table of ops has a row for each family.
#pragma once

// clang-format off
// Functions of one tensor: f32, f16, bf16.
#define GABBRO_UNARY_OPS(X) \
  X(neg, Neg) \
  X(abs, Abs) \
  X(exp, Exp) \
  X(log, Log) \
  X(sqrt, Sqrt) \
  X(rsqrt, Rsqrt) \
  X(sin, Sin) \
  X(cos, Cos) \
  X(tanh, Tanh) \
  X(sigmoid, Sigmoid) \
  X(floor, Floor) \
  X(ceil, Ceil) \
  X(round, Round) \
  X(trunc, Trunc) \
  X(expm1, Expm1) \
  X(log1p, Log1p) \
  X(log2, Log2) \
  X(log10, Log10) \
  X(tan, Tan) \
  X(sinh, Sinh) \
  X(cosh, Cosh) \
  X(asin, Asin) \
  X(acos, Acos) \
  X(atan, Atan) \
  X(asinh, Asinh) \
  X(acosh, Acosh) \
  X(atanh, Atanh) \
  X(sign, Sign) \
  X(erf, Erf) \
  X(relu, Relu) \
  X(silu, Silu) \
  X(gelu, Gelu) \
  X(gelu_tanh, GeluTanh)

// Functions of two tensors of one dtype: floats and integers.
#define GABBRO_ARITHMETIC_OPS(X) \
  X(add, Add) \
  X(sub, Sub) \
  X(mul, Mul) \
  X(div, Div) \
  X(pow, Pow) \
  X(maximum, Maximum) \
  X(minimum, Minimum) \
  X(floor_divide, FloorDivide) \
  X(remainder, Remainder)

// Functions of two tensors of floats.
#define GABBRO_OPS_OF_FLOATS(X) \
  X(atan2, Atan2) \
  X(hypot, Hypot)

// Functions of two tensors of integers.
#define GABBRO_OPS_OF_INTEGERS(X) \
  X(bitwise_and, BitwiseAnd) \
  X(bitwise_or, BitwiseOr) \
  X(bitwise_xor, BitwiseXor) \
  X(left_shift, LeftShift) \
  X(right_shift, RightShift)

// Comparisons of two tensors of floats or integers, to bool.
#define GABBRO_COMPARISON_OPS(X) \
  X(eq, Equal) \
  X(ne, NotEqual) \
  X(lt, Less) \
  X(le, LessEqual) \
  X(gt, Greater) \
  X(ge, GreaterEqual)

// Functions of two tensors of bool.
#define GABBRO_LOGICAL_OPS(X) \
  X(logical_and, LogicalAnd) \
  X(logical_or, LogicalOr)
// clang-format on
