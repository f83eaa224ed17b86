// Functions over the vector vocabulary that are the same for every instruction set.
#pragma once

#include "backends/cpu/simd/simd.h"

namespace gabbro::cpu::GABBRO_ISA {

// e^(x - n · ln 2) for the whole n next to x / ln 2: a Taylor polynomial of degree 7 (truncation error below 2⁻²⁷), its
// terms in pairs, since a chain of them is what functions of e wait for.
inline F32 exp_of_rest(F32 x, F32 n) {
  F32 r = fma(n, splat(-0.693145752f), x);  // ln 2 in two parts: the upper has 12 trailing zero bits,
  r = fma(n, splat(-1.42860677e-6f), r);    // so that n times it is exact
  const F32 r2 = r * r;
  F32 p = fma(splat(1.0f / 5040), r, splat(1.0f / 720));
  p = fma(p, r2, fma(splat(1.0f / 120), r, splat(1.0f / 24)));
  p = fma(p, r2, fma(splat(1.0f / 6), r, splat(0.5f)));
  return fma(p, r2, r) + splat(1.0f);
}

// eˣ, within 1.1 ulp (all floats of ±110, every 97th, against double); 0 below -104, infinity above 88.8, NaN for NaN.
inline F32 exp(F32 x) {
  x = max(splat(-150.0f), min(splat(150.0f), x));
  const F32 n = round_even(x * splat(1.44269504f));
  return scale_by_power(exp_of_rest(x, n), n);
}

// As exp(), with the same bits, for x that are not above 0; NaN for NaN.
inline F32 exp_of_nonpositive(F32 x) {
  x = max(splat(-150.0f), x);
  const F32 n = round_even(x * splat(1.44269504f));
  return scale_by_power(exp_of_rest(x, n), n);
}

// As exp(), with the same bits, for x from -87 to 0, and e⁻⁸⁷ = 1.6e-38 below: for sums with larger terms.
inline F32 exp_of_negative(F32 x) {
  x = max(splat(-87.0f), x);
  const F32 n = round_even(x * splat(1.44269504f));
  return scale_by_normal_power(exp_of_rest(x, n), n);
}

// Within 2.3 ulp (every 197th float, against double); 0 below -88.7, as in PyTorch.
inline F32 sigmoid(F32 x) { return splat(1.0f) / (splat(1.0f) + exp(splat(0.0f) - x)); }
// Within 3 ulp. NaN of -∞ and -0 below -88.7, as in PyTorch.
inline F32 silu(F32 x) { return x / (splat(1.0f) + exp(splat(0.0f) - x)); }

// tanh |x| = 1 - 2 / (e²ˣ + 1); near zero x + x³ · p(x²), a minimax polynomial. Within 1.5 ulp (measured likewise).
inline F32 tanh(F32 x) {
  constexpr float kTwoLog2 = 2.88539008f;      // 2 log₂ e
  const F32 size = min(splat(10.0f), abs(x));  // from 9.1 on it is 1; NaN stays
  const F32 n = round_even(size * splat(kTwoLog2)), f = fma(size, splat(kTwoLog2), -n);
  F32 power = fma(splat(1.53457905e-4f), f, splat(1.33999443e-3f));  // 2^f, within 2e-9
  power = fma(power, f, splat(9.61848914e-3f));
  power = fma(power, f, splat(5.55032874e-2f));
  power = fma(power, f, splat(0.240226469f));
  power = fma(power, f, splat(0.693147206f));
  power = scale_by_normal_power(fma(power, f, splat(1.0f)), n);
  const F32 far = fma(splat(-2.0f), reciprocal(power + splat(1.0f)), splat(1.0f));
  const F32 square = x * x;
  F32 p = fma(splat(-5.69229666e-3f), square, splat(2.06281673e-2f));
  p = fma(p, square, splat(-5.37365153e-2f));
  p = fma(p, square, splat(1.33314058e-1f));
  p = fma(p, square, splat(-3.33332807e-1f));
  const F32 near = fma(p * square, x, x);
  return copysign(select(size < splat(0.625f), near, far), x);
}

}  // namespace gabbro::cpu::GABBRO_ISA
