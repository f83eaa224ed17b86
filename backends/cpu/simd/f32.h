// Functions of f32 in plain C++ without branches, so that a compiler makes vectors of loops over them. Each is within
// 1.7 units in the last place (every 397th float, against f64). Polynomials without another note are minimax fits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "backends/cpu/simd/f64.h"

namespace gabbro::cpu::GABBRO_ISA::f32 {

// a·b + c, rounded twice by sets without the instruction.
inline float fma(float a, float b, float c) {
#if defined(__FMA__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
// a·b + c where the product must not be rounded.
inline float exact_fma(float a, float b, float c) {
#if defined(__FMA__)
  return __builtin_fmaf(a, b, c);
#else
  return static_cast<float>(static_cast<double>(a) * b + c);
#endif
}

// coefficients[0] · x^(n - 1) + ...
template <class... Rest>
inline float polynomial(float sum, float x, Rest... coefficients) {
  ((sum = fma(sum, x, coefficients)), ...);
  return sum;
}

inline float select(bool condition, float yes, float no) { return condition ? yes : no; }

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Adding it rounds to a whole number, which is then in the low bits.
inline constexpr float kRounder = 0x1.8p23f;
// 2^n for whole n of -127 (0) to 128 (infinity).
inline float power_of_two(float n) { return std::bit_cast<float>((std::bit_cast<int32_t>(n + kRounder) + 127) << 23); }

// x = n · ln 2 + r + low, and e^r - 1 - r.
struct Exponent {
  float n, r, low, rest;
};
inline Exponent exponent_of(float x) {
  const float n = (x * 1.44269504f + kRounder) - kRounder;
  const float first = fma(n, -0.693145752f, x);  // exact: the upper part of ln 2 has 12 trailing zero bits
  const float r = fma(n, -1.42860677e-6f, first), low = fma(n, -1.42860677e-6f, first - r), r2 = r * r;
  float p = fma(1.0f / 5040, r, 1.0f / 720);
  p = fma(p, r2, fma(1.0f / 120, r, 1.0f / 24));
  p = fma(p, r2, fma(1.0f / 6, r, 0.5f));
  return {n, r, low, p * r2};
}

// 2^n · (1 + r + ...) - 1, twice a sum whose first addition's rounding error is added with the small terms.
inline float expm1(float x) {
  const Exponent e = exponent_of(select(x > 89, 89.0f, select(x < -20, -20.0f, x)));
  const float half = power_of_two(e.n - 1), base = half - 0.5f;
  const float sum = exact_fma(half, e.r, base), lost = exact_fma(half, e.r, base - sum);
  const float value = 2 * (sum + fma(half, e.rest + e.low, lost));
  return select(std::fabs(x) < 0x1p-25f, x, value);
}

// 2ˣ, in two factors: the result may be subnormal.
inline float exp2(float x) {
  const float held = select(x > 129, 129.0f, select(x < -151, -151.0f, x));  // NaN stays
  const float n = (held + kRounder) - kRounder, r = held - n, half = (n * 0.5f + kRounder) - kRounder;
  const float p = polynomial(1.52527338e-5f, r, 1.54035304e-4f, 1.33335581e-3f, 9.61812911e-3f, 5.55041087e-2f,
                             0.240226507f, 0.693147181f);  // the Taylor polynomial
  return fma(p, r, 1.0f) * power_of_two(half) * power_of_two(n - half);
}

// e^|x| / 2; beyond the range of the hyperbolic functions infinity.
inline float half_exp(float size) {
  const Exponent e = exponent_of(select(size > 90, 90.0f, size));
  return (1 + (e.r + (e.rest + e.low))) * power_of_two(e.n - 2) * 2;
}
inline float sinh(float x) {
  const float size = std::fabs(x), half = half_exp(size), z = x * x;
  const float near = fma(x * z, polynomial(2.78221319e-06f, z, 0.000198428956f, 0.00833331048f, 0.166666672f), x);
  return select(size < 1, near, std::copysign(half - 0.25f / half, x));
}
inline float cosh(float x) {
  const float half = half_exp(std::fabs(x));
  return half + 0.25f / half;
}

// u = 2^k · (1 + f) with 1 + f between the roots of 1/2 and 2, and log(1 + f) - f by a minimax polynomial.
struct Logarithm {
  float k, f, rest;
};
inline Logarithm log_of_parts(float u) {
  const auto above = static_cast<int32_t>(std::bit_cast<uint32_t>(u) - 0x3f3504f3);  // √½
  const float f = std::bit_cast<float>((above & 0x7fffff) + 0x3f3504f3) - 1;
  const float p = polynomial(-0.0762286186f, f, 0.129084989f, -0.132446885f, 0.14181219f, -0.166087627f, 0.20002f,
                             -0.250016004f, 0.333333254f, -0.499999881f);
  return {static_cast<float>(above >> 23), f, f * f * p};
}
// k · ln 2 + log(1 + f) + small: the upper part of ln 2 has 15 trailing zero bits.
inline float log_plus(const Logarithm& log, float small) {
  return fma(log.k, 0.693359375f, log.f + (log.rest + fma(log.k, -2.12194440e-4f, small)));
}
// Logarithms to base e, 2 and 10 of those parts; 1 / ln 2 and 1 / ln 10 are in two parts.
inline float of_base_e(const Logarithm& log) { return log_plus(log, 0); }
inline float of_base_2(const Logarithm& log) {
  const float first = log.f * 1.44269502f, lost = exact_fma(log.f, 1.44269502f, -first);
  return log.k + (first + fma(log.f, 1.925963e-8f, fma(log.rest, 1.44269502f, lost)));
}
inline float of_base_10(const Logarithm& log) {
  const float first = log.f * 0.434294492f, lost = exact_fma(log.f, 0.434294492f, -first);
  const float rest = fma(log.f, -1.010314e-8f, fma(log.rest, 0.434294492f, lost));
  return fma(log.k, 0.30102539f, first + fma(log.k, 4.60503907e-6f, rest));
}

// The result for an argument without a logarithm, or an infinite one.
inline float log_of_special(float u) { return select(u == 0, -kInfinity, select(u < 0, kNan, u)); }
// For normal numbers above 0, and for all.
template <float (*kBase)(const Logarithm&)>
inline float log_of_normal(float x) {
  return kBase(log_of_parts(x));
}
template <float (*kBase)(const Logarithm&)>
inline float log_of_any(float x) {
  const bool subnormal = x < 0x1p-126f;
  Logarithm log = log_of_parts(select(subnormal, x * 0x1p23f, x));
  log.k -= select(subnormal, 23.0f, 0.0f);
  return select(x > 0 && x < kInfinity, kBase(log), log_of_special(x));
}

// The rounding error of u = 1 + x is added back, divided by u.
inline float log1p(float x) {
  const float u = 1 + x, lost = select(x < 1, x - (u - 1), 1 - (u - x));
  const float value = log_plus(log_of_parts(u), lost / u);
  const bool ordinary = x > -1 && x < kInfinity;
  return select(std::fabs(x) < 0x1p-25f, x, select(ordinary, value, log_of_special(u)));
}

// Half of log((1 + |x|) / (1 - |x|)) from 1/2 on, with the rounding errors of the sum and of the quotient divided by
// 1 + |x|; two digits of it are enough.
inline float atanh(float x) {
  const float size = std::fabs(x), z = x * x;
  const float near = fma(
      x * z,
      polynomial(0.185149863f, z, 0.0169545487f, 0.105245531f, 0.109293975f, 0.142978147f, 0.199996218f, 0.333333373f),
      x);
  const float above = 1 + size, lost = size - (above - 1), below = 1 - size, q = above / below;
  const float rest = (exact_fma(-q, below, above) + lost) * fma(above, -0.3333f, 1.1619f);
  const float far = 0.5f * log_plus(log_of_parts(q), rest);
  const float whole = select(size < 1, far, select(size == 1, kInfinity, kNan));
  return select(size < 0.5f, near, std::copysign(whole, x));
}

// log(u), within 2⁻³²
inline double short_log(double u) {
  const f64::Parts parts = f64::parts_of(u);
  const double f = parts.m - 1, s = f / (2 + f), z = s * s;
  const double p = 2 + z * (2.0 / 3 + z * (2.0 / 5 + z * (2.0 / 7 + z * (2.0 / 9 + z * (2.0 / 11)))));
  return p * s + parts.k * 0x1.62e42fefa39efp-1;
}
inline float asinh(float x) {
  const float size = std::fabs(x);
  const double wide = size, root = std::sqrt(wide * wide + 1);
  const auto value = static_cast<float>(short_log(wide + root));
  return select(size < 0x1p-12f, x, select(size < kInfinity, std::copysign(value, x), x));
}
inline float acosh(float x) {
  const double wide = x, root = std::sqrt(wide * wide - 1);
  const auto value = static_cast<float>(short_log(wide + root));
  return select(x >= 1 && x < kInfinity, value, select(x < 1, kNan, x));
}

// s and z = s² for asin and acos: x, or from 1/2 on the root of (1 - |x|) / 2, and asin(s) - s.
struct Sine {
  bool near;
  float s, rest;
};
inline Sine reduced_sine(float x) {
  const float size = std::fabs(x), half = 0.5f - 0.5f * size;
  const bool near = size < 0.5f;
  const float z = select(near, x * x, half), s = select(near, x, std::sqrt(half));
  return {near, s, s * z * polynomial(0.0421583876f, z, 0.0241847429f, 0.0454691537f, 0.0749530941f, 0.166667521f)};
}
// Elsewhere π/2 - 2 · asin s; 1 of π/2 is added last.
inline float asin(float x) {
  const Sine sine = reduced_sine(x);
  const float far = 1 + ((0.570796371f - 2 * sine.s) - 2 * (sine.rest + 2.18556941e-8f));
  return std::copysign(select(sine.near, sine.s + sine.rest, far), x);
}
// π/2 - asin s, 2 · asin s or π - 2 · asin s; π/2 and π are in two parts.
inline float acos(float x) {
  const Sine sine = reduced_sine(x);
  const float middle = 1.57079637f - (sine.s + (sine.rest + 4.37113883e-8f));
  const float twice = std::copysign(2 * (sine.s + sine.rest), x), pi = select(x < 0, 3.14159274f, 0.0f);
  return select(sine.near, middle, pi + fma(pi, -2.78275199e-8f, twice));
}

// For |x| above 1: π/2 - atan(1 / |x|).
inline float atan(float x) {
  const float size = std::fabs(x);
  const bool far = size > 1;
  const float t = select(far, 1 / size, size), z = t * t;
  const float p = polynomial(-0.00180634658f, z, 0.0109524177f, -0.0312142689f, 0.0579631701f, -0.0840225741f,
                             0.109513924f, -0.142640471f, 0.199985296f, -0.333332986f);
  const float near = fma(t * z, p, t);
  return std::copysign(select(far, 1.57079637f - (near + 4.37113883e-8f), near), x);
}

// The range in which π/2 is subtracted from |x| exactly enough.
inline constexpr float kMostReducible = 1e5f;
// x = n · π/2 + r + low: the tangent of the rest, or for odd n its negative inverse, whose rounding error is added.
inline float tan(float x) {
  const float rounded = fma(x, 0.636619772f, kRounder), n = rounded - kRounder;
  const float first = exact_fma(n, -1.57079637f, x);  // exact
  const float second = n * 4.37113883e-8f, r = first + second, lost = (first - r) + second;
  const float low = lost + fma(n, 1.71512451e-15f, exact_fma(n, 4.37113883e-8f, -second));
  const float z = r * r;
  const float p = polynomial(0.00446552597f, z, -8.83061439e-05f, 0.0109736612f, 0.0212299284f, 0.0540698655f,
                             0.13332577f, 0.333333522f);
  const float rest = fma(r * z, p, fma(low, z, low));
  const float t = r + rest, q = -1 / t;
  const float error = fma(q, rest, exact_fma(q, r, 1.0f));
  const float value = select((std::bit_cast<int32_t>(rounded) & 1) != 0, fma(q, error, q), t);
  return select(x == 0, x, value);
}

}  // namespace gabbro::cpu::GABBRO_ISA::f32
