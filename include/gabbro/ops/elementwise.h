// Elementwise functions and operators. The shapes of two tensors broadcast as in NumPy; if they cannot, bad_input
// "[name] ..." names both. f16 and bf16 are computed in f32 and rounded once.
#pragma once

#include "gabbro/ops/promotion.h"

#pragma GCC visibility push(default)
namespace gabbro {

// Elementwise. Floats give their own dtype (f16 and bf16 are computed in f32), integers and bool give f32.
Tensor exp(const Tensor& x);
Tensor exp2(const Tensor& x);
Tensor expm1(const Tensor& x);  // e^x - 1
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);  // log(1 + x)
Tensor log2(const Tensor& x);
Tensor log10(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor asinh(const Tensor& x);
Tensor acosh(const Tensor& x);
Tensor atanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor erf(const Tensor& x);
// Any number dtype, which is kept: integers are whole already. `round` rounds ties to even.
Tensor neg(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);  // a NaN stays one
Tensor square(const Tensor& x);
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);
Tensor trunc(const Tensor& x);
// To bool.
Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);

// Binary ones meet in one dtype (promotion.h) and broadcast as NumPy does. Integers wrap around. For two bool, add and
// maximum are logical_or, mul and minimum logical_and. Comparisons give bool.
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);  // a fraction, also of integers
// Quotient rounded down, its remainder with the sign of b, quotient rounded toward zero. Integers by zero give 0.
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, const Tensor& b);
Tensor trunc_divide(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor pow(const Tensor& a, const Tensor& b);  // of integers: 0 for a negative power of anything but ±1
Tensor atan2(const Tensor& y, const Tensor& x);
Tensor hypot(const Tensor& a, const Tensor& b);
Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
// Integers and bool. A shift by a negative number of bits, or by all of them, leaves nothing but the sign.
Tensor bitwise_and(const Tensor& a, const Tensor& b);
Tensor bitwise_or(const Tensor& a, const Tensor& b);
Tensor bitwise_xor(const Tensor& a, const Tensor& b);
Tensor bitwise_not(const Tensor& x);
Tensor left_shift(const Tensor& a, const Tensor& b);  // not of bool
Tensor right_shift(const Tensor& a, const Tensor& b);
// Any dtype: nonzero is true.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);
// min(max(x, low), high), so high where the bounds cross; a NaN stays one. Numbers become x's dtype.
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high);
Tensor clamp(const Tensor& x, double low, double high);
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor cast(const Tensor& x, DType dtype);  // floats to integers by truncation, held within their range (NaN: 0)
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }
// A number takes the tensor's dtype where its kind fits (promotion.h).
inline Tensor operator+(const Tensor& a, const Number& b) { return add(a, weak(a, b)); }
inline Tensor operator-(const Tensor& a, const Number& b) { return sub(a, weak(a, b)); }
inline Tensor operator*(const Tensor& a, const Number& b) { return mul(a, weak(a, b)); }
inline Tensor operator/(const Tensor& a, const Number& b) { return div(a, weak(a, b)); }
inline Tensor operator+(const Number& a, const Tensor& b) { return add(weak(b, a), b); }
inline Tensor operator-(const Number& a, const Tensor& b) { return sub(weak(b, a), b); }
inline Tensor operator*(const Number& a, const Tensor& b) { return mul(weak(b, a), b); }
inline Tensor operator/(const Number& a, const Tensor& b) { return div(weak(b, a), b); }

}  // namespace gabbro
#pragma GCC visibility pop
