// Conversion of numbers. Floats become integers by truncation, held within the integer's range (NaN: 0); integers wrap
// around; anything but zero is true.
#pragma once

#include "kernels/gpu/gpu.h"

namespace gabbro::gpu::GABBRO_GPU {

struct Boolean {
  u8 value;
};

enum class Kind { kInteger, kReal, kHalf, kBoolean };

template <class T>
struct Type {
  static constexpr Kind kind = Kind::kInteger;
};
template <>
struct Type<float> {
  static constexpr Kind kind = Kind::kReal;
};
template <>
struct Type<double> {
  static constexpr Kind kind = Kind::kReal;
};
template <>
struct Type<Half> {
  static constexpr Kind kind = Kind::kHalf;
};
template <>
struct Type<BFloat> {
  static constexpr Kind kind = Kind::kHalf;
};
template <>
struct Type<Boolean> {
  static constexpr Kind kind = Kind::kBoolean;
};

// The value as an arithmetic type: f16 as float, booleans as 0 or 1.
template <class T>
GPU_FUNCTION inline T widened(T x) {
  return x;
}
GPU_FUNCTION inline float widened(Half x) { return to_float(x); }
GPU_FUNCTION inline float widened(BFloat x) { return to_float(x); }
GPU_FUNCTION inline u8 widened(Boolean x) { return x.value != 0; }

template <class To, class From>
GPU_FUNCTION inline To held_within(From x) {
  constexpr bool kUnsigned = static_cast<To>(-1) > 0;
  constexpr int kBits = sizeof(To) * 8 - (kUnsigned ? 0 : 1);
  constexpr From kEnd = static_cast<From>(u64{1} << (kBits - 1)) * 2;  // the first power of two above the range
  constexpr u64 kHighest = ~u64{0} >> (64 - kBits);
  if (x != x) return 0;
  if (x < (kUnsigned ? 0 : -kEnd)) return kUnsigned ? 0 : static_cast<To>(~kHighest);
  if (x >= kEnd) return static_cast<To>(kHighest);
  return static_cast<To>(x);
}

template <class To, class From>
GPU_FUNCTION inline To converted(From from) {
  const auto x = widened(from);
  constexpr Kind kFrom = Type<From>::kind, kTo = Type<To>::kind;
  if constexpr (kTo == Kind::kBoolean) {
    return Boolean{static_cast<u8>(x != 0)};
  } else if constexpr (kTo == Kind::kHalf) {
    return from_float<To>(static_cast<float>(x));
  } else if constexpr (kTo == Kind::kInteger && (kFrom == Kind::kReal || kFrom == Kind::kHalf)) {
    return held_within<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU
