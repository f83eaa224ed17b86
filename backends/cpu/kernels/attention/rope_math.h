// Rotary position embedding (Su et al. 2021) of one token's heads, and vectors of sine and cosine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "backends/cpu/kernels/rows/rows.h"

namespace gabbro::cpu::GABBRO_ISA {

struct SineCosine {
  F32 sine;
  F32 cosine;
};

// Beyond this the reduction below loses bits, and callers use the C library: with fused multiply-adds where n times a
// part of π/2 is no longer exact, without them where there is anything to reduce.
#ifdef __FP_FAST_FMAF
inline constexpr float kMaxReducible = 1e6f;
#else
inline constexpr float kMaxReducible = 0.78f;
#endif

// Within 2 ulp of 1 for |x| ≤ kMaxReducible. x = n·π/2 + r with |r| ≤ π/4 (Cody & Waite 1980, three parts of π/2), then
// the Taylor polynomials of sine to r⁹ and cosine to r¹⁰ (truncation below 2⁻²⁷), swapped and negated by n mod 4.
inline SineCosine sine_cosine(F32 x) {
  const F32 n = round_even(x * splat(0.636619772f));
  F32 r = fma(n, splat(-1.57079637f), x);
  r = fma(n, splat(4.37113883e-8f), r);
  r = fma(n, splat(1.71512451e-15f), r);
  const F32 square = r * r;
  F32 s = splat(1.0f / 362880);
  s = fma(s, square, splat(-1.0f / 5040));
  s = fma(s, square, splat(1.0f / 120));
  s = fma(s, square, splat(-1.0f / 6));
  s = fma(s * square, r, r);
  F32 c = splat(-1.0f / 3628800);
  c = fma(c, square, splat(1.0f / 40320));
  c = fma(c, square, splat(-1.0f / 720));
  c = fma(c, square, splat(1.0f / 24));
  c = fma(c, square, splat(-0.5f));
  c = fma(c, square, splat(1.0f));
  const F32 quadrant = n - splat(4.0f) * floor(n * splat(0.25f));  // 0, 1, 2 or 3
  const F32 half = n - splat(2.0f) * floor(n * splat(0.5f));       // 0 or 1
  const Mask odd = half == splat(1.0f);
  const F32 minus_s = zero_f32() - s;
  const F32 minus_c = zero_f32() - c;
  const Mask first_half = quadrant < splat(1.5f);
  const F32 sine = select(odd, select(first_half, c, minus_c), select(first_half, s, minus_s));
  const F32 cosine = select(odd, select(first_half, minus_s, s), select(first_half, c, minus_c));
  return {sine, cosine};
}

// Constants of the request.
struct RopeShape {
  static constexpr int64_t kMaxPairs = 512;
  int64_t pairs = 0;  // R / 2
  bool interleaved = false;
  float magnitude = 1;
};

// False where the op's frequencies and attributes are not what docs/design/fused_ops.md says, for heads of `dim`
// elements.
inline bool read_rope_shape(const abi::KernelRequest& request, const abi::TensorView& frequencies, int64_t dim,
                            RopeShape& shape) {
  if (frequencies.rank != 1 || !has_shape(frequencies, DType::f32, {frequencies.shape[0]})) return false;
  shape.pairs = frequencies.shape[0];
  shape.interleaved = integer_attribute(request, "interleaved", 0) != 0;
  shape.magnitude = static_cast<float>(real_attribute(request, "magnitude", 1));
  return shape.pairs <= RopeShape::kMaxPairs && 2 * shape.pairs <= dim;
}

// Sines and cosines of one position, for all heads of its token.
class Rotation {
 public:
  // The angle is position · frequency rounded to f32, as the models were trained.
  Rotation(const RopeShape& shape, const float* frequencies, int32_t position) : shape_(shape) {
    const float at = static_cast<float>(position);
    for (int64_t i = 0; i < shape.pairs; i += kLanes) {
      const int count = static_cast<int>(std::min<int64_t>(kLanes, shape.pairs - i));
      const F32 angle = splat(at) * load_first(frequencies + i, count);
      if (reduce_max(abs(angle)) <= kMaxReducible) {
        const SineCosine both = sine_cosine(angle);
        store(sine_ + i, both.sine * splat(shape.magnitude));
        store(cosine_ + i, both.cosine * splat(shape.magnitude));
        continue;
      }
      for (int64_t j = i; j < i + count; ++j) {
        sine_[j] = std::sin(at * frequencies[j]) * shape.magnitude;
        cosine_[j] = std::cos(at * frequencies[j]) * shape.magnitude;
      }
    }
  }

  // One head of `dim` elements; `to` may be `from`.
  void apply(const float* from, float* to, int64_t dim) const {
    const int64_t pairs = shape_.pairs;
    if (shape_.interleaved) {
      for (int64_t i = 0; i < pairs; ++i) {
        const float a = from[2 * i];
        const float b = from[2 * i + 1];
        to[2 * i] = a * cosine_[i] - b * sine_[i];
        to[2 * i + 1] = b * cosine_[i] + a * sine_[i];
      }
    } else {
      for (int64_t i = 0; i < pairs; i += kLanes) {
        const int count = static_cast<int>(std::min<int64_t>(kLanes, pairs - i));
        const F32 a = load_some(from + i, count);
        const F32 b = load_some(from + pairs + i, count);
        const F32 s = load(sine_ + i);
        const F32 c = load(cosine_ + i);
        store_some(to + i, a * c - b * s, count);
        store_some(to + pairs + i, b * c + a * s, count);
      }
    }
    if (to != from) std::memcpy(to + 2 * pairs, from + 2 * pairs, static_cast<size_t>(dim - 2 * pairs) * sizeof(float));
  }

 private:
  RopeShape shape_;
  float sine_[RopeShape::kMaxPairs];
  float cosine_[RopeShape::kMaxPairs];
};

}  // namespace gabbro::cpu::GABBRO_ISA
