// Four floats at a time, for the searches of the encoders: a lane is a group of a block, or a candidate of a search.
// The operations are IEEE's in a fixed order, so that a block is the same on every machine. Private to this folder.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace gabbro::quant {

inline constexpr int kLanes = 4;
using Lanes = float __attribute__((vector_size(4 * kLanes)));
using IntLanes = int32_t __attribute__((vector_size(4 * kLanes)));

inline Lanes broadcast(float value) { return Lanes{} + value; }

inline Lanes load_lanes(const float* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

// A comparison with NaN is false: min and max give `b` then.
#ifdef __SSE__  // one instruction, which g++ does not find
inline Lanes min(Lanes a, Lanes b) { return _mm_min_ps(a, b); }
inline Lanes max(Lanes a, Lanes b) { return _mm_max_ps(a, b); }
#else
inline Lanes min(Lanes a, Lanes b) { return a < b ? a : b; }
inline Lanes max(Lanes a, Lanes b) { return a > b ? a : b; }
#endif
inline Lanes clamp(Lanes value, float low, float high) { return min(max(value, broadcast(low)), broadcast(high)); }
inline Lanes select(IntLanes mask, Lanes a, Lanes b) { return mask ? a : b; }
inline Lanes absolute(Lanes value) { return (Lanes)((IntLanes)value & 0x7fffffff); }

// To the nearest integer, |value| < 2²²: the sum with 1.5 · 2²³ has no bits for the fraction.
inline Lanes round_lanes(Lanes value) { return (value + 12582912.0f) - 12582912.0f; }

// To the nearest integer, halves away from zero as std::round; |value| < 2³¹.
inline IntLanes round_half_away(Lanes value) {
  const IntLanes whole = __builtin_convertvector(value, IntLanes);
  const Lanes rest = value - __builtin_convertvector(whole, Lanes);  // exact
  return whole - (IntLanes)(rest >= 0.5f) + (IntLanes)(rest <= -0.5f);
}

// 1 / value; 0 of 0.
inline Lanes invert(Lanes value) {
  const IntLanes zero = value == 0.0f;
  return select(zero, Lanes{}, 1.0f / select(zero, broadcast(1), value));
}

inline float sum(Lanes lanes) { return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]); }

}  // namespace gabbro::quant
