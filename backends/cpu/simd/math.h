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

// The same bits for x from -87 to 0, and e⁻⁸⁷ = 1.6e-38 below: for sums with what is larger.
inline F32 exp_of_negative(F32 x) {
  x = max(splat(-87.0f), x);
  const F32 n = round_even(x * splat(1.44269504f));
  return scale_by_normal_power(exp_of_rest(x, n), n);
}

inline F32 sigmoid(F32 x) { return splat(1.0f) / (splat(1.0f) + exp(splat(0.0f) - x)); }
inline F32 silu(F32 x) { return x / (splat(1.0f) + exp(splat(0.0f) - x)); }

// tanh |x| = (1 - e⁻²ˣ) / (1 + e⁻²ˣ); near zero the odd polynomial x - x³/3 + 2x⁵/15, which does not cancel.
// Within 4 ulp (measured likewise).
inline F32 tanh(F32 x) {
  const F32 size = abs(x);
  const F32 decay = exp(splat(-2.0f) * size);
  const F32 far = (splat(1.0f) - decay) / (splat(1.0f) + decay);
  const F32 square = x * x;
  const F32 near = x * fma(square, fma(square, splat(2.0f / 15), splat(-1.0f / 3)), splat(1.0f));  // -0 of -0
  const F32 whole = select(x < splat(0.0f), splat(0.0f) - far, far);
  return select(size < splat(0.1f), near, whole);
}

}  // namespace gabbro::cpu::GABBRO_ISA
