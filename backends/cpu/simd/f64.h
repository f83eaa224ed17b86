// Functions of f64 in plain C++ without branches, so that a compiler makes vectors of loops over them. Each is within
// 2 units in the last place, tan within 2.2 (measured against 80-bit arithmetic); constants are series coefficients and
// the digits of ln 2 and pi / 2.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "backends/cpu/simd/simd.h"

namespace gabbro::cpu::GABBRO_ISA::f64 {

// a·b + c in one rounding. Without the instruction (the scalar set) two: the same bound holds but for sine and cosine.
inline double fma(double a, double b, double c) {
#if defined(__FMA__)
  return __builtin_fma(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}

// coefficients[0] · x^(n - 1) + ...: as a pack, for a loop would keep its caller from becoming vectors.
template <class... Rest>
inline double polynomial(double sum, double x, Rest... coefficients) {
  ((sum = fma(sum, x, coefficients)), ...);
  return sum;
}

inline double select(bool condition, double yes, double no) { return condition ? yes : no; }

// Adding it rounds to a whole number, which is then in the low bits.
inline constexpr double kRounder = 0x1.8p52;
inline int64_t whole_bits(double n) { return std::bit_cast<int64_t>(n + kRounder); }
// 2^n for whole n of -1022 to 1023.
inline double power_of_two(double n) {
  return std::bit_cast<double>(static_cast<uint64_t>(whole_bits(n) + 1023) << 52);
}

// e^r - 1 - r for |r| below 0.35: the Taylor polynomial of degree 13 (truncation error below 2^-57 of e^r - 1).
inline double rest_of_expm1(double r) {
  const double r2 = r * r, r4 = r2 * r2;
  const double low = fma(r, 1.0 / 6, 0.5) + r2 * fma(r, 1.0 / 120, 1.0 / 24);
  const double middle = fma(r, 1.0 / 5040, 1.0 / 720) + r2 * fma(r, 1.0 / 362880, 1.0 / 40320);
  const double high = fma(r, 1.0 / 39916800, 1.0 / 3628800) + r2 * fma(r, 1.0 / 6227020800, 1.0 / 479001600);
  return r2 * fma(r4, fma(r4, high, middle), low);
}

// x = n · ln 2 + r + low.
struct Exponent {
  double n, r, low;
};
inline Exponent exponent_of(double x) {
  const double n = (x * 0x1.71547652b82fep0 + kRounder) - kRounder;
  const double first = fma(-n, 0x1.62e42fefa0000p-1, x);  // the upper part of ln 2 has 14 trailing zero bits
  const double r = fma(-n, 0x1.cf79abc9e3b3ap-40, first);
  return {n, r, fma(-n, 0x1.cf79abc9e3b3ap-40, first - r)};
}

// For a normal result: |x| up to kMostNormal.
inline constexpr double kMostNormal = 708;
inline double exp_of_normal(double x) {
  const Exponent e = exponent_of(x);
  const double value = 1 + (e.r + rest_of_expm1(e.r));
  return std::bit_cast<double>(std::bit_cast<uint64_t>(value) + (static_cast<uint64_t>(whole_bits(e.n)) << 52));
}

inline double exp(double x) {
  const double held = select(x > 710, 710.0, select(x < -746, -746.0, x));  // NaN stays
  const Exponent e = exponent_of(held);
  const double half = (e.n * 0.5 + kRounder) - kRounder;  // in two factors: the result may be subnormal
  return (1 + (e.r + rest_of_expm1(e.r))) * power_of_two(half) * power_of_two(e.n - half);
}

// 2^n · (1 + r + ...) - 1, twice a sum whose first addition's rounding error is added with the small terms.
inline double expm1(double x) {
  const double held = select(x > 710, 710.0, select(x < -40, -40.0, x));
  const Exponent e = exponent_of(held);
  const double half = power_of_two(e.n - 1), base = half - 0.5;
  const double sum = fma(half, e.r, base), lost = fma(half, e.r, base - sum);
  const double value = 2 * (sum + fma(half, rest_of_expm1(e.r) + e.low, lost));
  return select(std::fabs(x) < 0x1p-54, x, value);
}

// a / (big + small), without the rounding error of the sum.
inline double divided_by_sum(double a, double big, double small) {
  const double d = big + small, lost = small - (d - big), inverse = 1 / d, quotient = a * inverse;
  return fma(fma(-quotient, d, a) - quotient * lost, inverse, quotient);
}

// 1 / (1 + e), with e = e^-x.
inline double sigmoid_of(double e) { return divided_by_sum(1, select(e > 1, e, 1.0), select(e > 1, 1.0, e)); }
inline double sigmoid_of_normal(double x) { return sigmoid_of(exp_of_normal(-x)); }
inline double sigmoid(double x) {
  const double e = exp(-x);
  return select(e > 0x1p1000, 1 / e, sigmoid_of(e));
}

// With t = e^(2|x|) - 1: t / (t + 2); from 22 on it is 1.
inline double tanh(double x) {
  const double size = std::fabs(x), held = select(size > 22, 22.0, size);
  const double t = expm1(2 * held);
  const double value = divided_by_sum(t, select(t > 2, t, 2.0), select(t > 2, 2.0, t));
  return select(size < 0x1p-28, x, std::copysign(value, x));
}

// k · ln 2 + log m + c for m between the roots of 1/2 and 2: the series of 2 · atanh((m - 1) / (m + 1)).
inline double log_of_parts(double k, double m, double c) {
  const double f = m - 1, half = 0.5 * f * f, s = f / (2 + f), z = s * s;
  // Odd and even terms by themselves: one chain of them is what the function would wait for.
  const double zz = z * z, odd = polynomial(2.0 / 25, zz, 2.0 / 21, 2.0 / 17, 2.0 / 13, 2.0 / 9, 2.0 / 5);
  const double sum = fma(odd, z, polynomial(2.0 / 23, zz, 2.0 / 19, 2.0 / 15, 2.0 / 11, 2.0 / 7, 2.0 / 3));
  return k * 0x1.62e42fefa0000p-1 - ((half - fma(s, half + z * sum, k * 0x1.cf79abc9e3b3ap-40 + c)) - f);
}

// u = 2^k · m of a normal u.
struct Parts {
  double k, m;
};
inline Parts parts_of(double u) {
  constexpr uint64_t kRoot = 0x3fe6a09e667f3bcd;  // of 1/2
  const uint64_t shifted = std::bit_cast<uint64_t>(u) + (0x3ff0000000000000 - kRoot);
  // The exponent as a double, without a conversion that AVX2 lacks.
  return {std::bit_cast<double>((shifted >> 52) | 0x4330000000000000) - (0x1p52 + 1023),
          std::bit_cast<double>((shifted & 0x000fffffffffffff) + kRoot)};
}

// The result for an argument without a logarithm, or an infinite one.
inline double log_of_special(double u) {
  return select(u == 0, -std::numeric_limits<double>::infinity(),
                select(u < 0, std::numeric_limits<double>::quiet_NaN(), u));
}

inline double log(double x) {
  const bool subnormal = x < 0x1p-1022;
  const Parts parts = parts_of(select(subnormal, x * 0x1p54, x));
  const double value = log_of_parts(parts.k - select(subnormal, 54.0, 0.0), parts.m, 0);
  return select(x > 0 && x < std::numeric_limits<double>::infinity(), value, log_of_special(x));
}

// The rounding error of u = 1 + x is added back, divided by u.
inline double log1p(double x) {
  const double u = 1 + x, lost = select(x < 1, x - (u - 1), 1 - (u - x));
  const Parts parts = parts_of(u);
  const double value = log_of_parts(parts.k, parts.m, lost / u);
  const bool ordinary = x > -1 && x < std::numeric_limits<double>::infinity();
  return select(std::fabs(x) < 0x1p-54, x, select(ordinary, value, log_of_special(u)));
}

// The range in which pi / 2 is subtracted from |x| exactly enough.
inline constexpr double kMostReducible = 1e5;

// x = n · pi / 2 + high + low, and sine and cosine of the rest.
struct SineCosine {
  double sine, cosine;
  int64_t n;
};
inline SineCosine sine_cosine_of_rest(double x) {
  const double n = (x * 0x1.45f306dc9c883p-1 + kRounder) - kRounder;
  const double first = fma(-n, 0x1.921fb54442d18p0, x);  // exact
  const double high = fma(-n, 0x1.1a62633145c07p-54, first);
  const double low = fma(-n, 0x1.1a62633145c07p-54, first - high);
  const double z = high * high;
  const double s = polynomial(1.0 / 355687428096000, z, -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800,
                              1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6);
  const double c = polynomial(1.0 / 20922789888000, z, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320,
                              -1.0 / 720, 1.0 / 24);
  const double sine = high + fma(high * z, s, low * fma(z, -0.5, 1.0));
  const double half = 0.5 * z, most = 1 - half;
  const double cosine = most + (((1 - most) - half) + fma(z * z, c, -high * low));
  return {sine, cosine, whole_bits(n)};
}
// The value with another sign where bit 1 of n is set.
inline double negated_by(double x, int64_t n) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(x) ^ (static_cast<uint64_t>(n) & 2) << 62);
}

// For |x| of up to kMostReducible.
inline double sin(double x) {
  const SineCosine rest = sine_cosine_of_rest(x);
  return select(std::fabs(x) < 0x1p-28, x, negated_by(select((rest.n & 1) != 0, rest.cosine, rest.sine), rest.n));
}
inline double cos(double x) {
  const SineCosine rest = sine_cosine_of_rest(x);
  return negated_by(select((rest.n & 1) != 0, rest.sine, rest.cosine), rest.n + 1);
}
inline double tan(double x) {
  const SineCosine rest = sine_cosine_of_rest(x);
  const bool odd = (rest.n & 1) != 0;
  const double quotient = select(odd, rest.cosine, rest.sine) / select(odd, rest.sine, rest.cosine);
  return select(std::fabs(x) < 0x1p-28, x, select(odd, -quotient, quotient));
}

}  // namespace gabbro::cpu::GABBRO_ISA::f64
