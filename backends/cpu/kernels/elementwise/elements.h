// Elements of f32, f16 and bf16 as vectors of f32, read and rounded in registers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backends/cpu/simd/simd.h"
#include "gabbro/backend_abi.h"
#include "src/base/half.h"

namespace gabbro::cpu::GABBRO_ISA {

inline bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

template <class T>
inline constexpr bool kHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat>;

// The dtype of the arithmetic: f32 for f16 and bf16.
template <class T>
using Wide = std::conditional_t<kHalf<T>, float, T>;

inline F32 load_as_f32(const float* p) { return load(p); }
inline F32 load_as_f32(const Half* p) { return load_half(p); }
inline F32 load_as_f32(const BFloat* p) { return load_bfloat(p); }
inline void store_rounded(float* p, F32 x) { store(p, x); }
inline void store_rounded(Half* p, F32 x) { store_half(p, x); }
inline void store_rounded(BFloat* p, F32 x) { store_bfloat(p, x); }

// The first `count` lanes, the others zero or left alone in memory; at no cost for a whole vector.
template <class T>
F32 load_some(const T* p, int count) {
  if (count == kLanes) return load_as_f32(p);
  if constexpr (std::is_same_v<T, Half>) {
    return load_half_first(p, count);
  } else if constexpr (std::is_same_v<T, BFloat>) {
    return load_bfloat_first(p, count);
  } else {
    return load_first(p, count);
  }
}
template <class T>
void store_some(T* p, F32 x, int count) {
  if (count == kLanes) return store_rounded(p, x);
  if constexpr (std::is_same_v<T, Half>) {
    store_half_first(p, x, count);
  } else if constexpr (std::is_same_v<T, BFloat>) {
    store_bfloat_first(p, x, count);
  } else {
    store_first(p, x, count);
  }
}

// f16 or bf16 as f32, by vectors if contiguous.
template <class T>
void widen(const T* x, int64_t stride, float* y, int64_t count) {
  if (stride == 0) {
    std::fill_n(y, count, static_cast<float>(*x));
    return;
  }
  int64_t i = 0;
  if (stride == 1) {
    for (; i + kLanes <= count; i += kLanes) store(y + i, load_as_f32(x + i));
  }
  for (; i < count; ++i) y[i] = static_cast<float>(x[i * stride]);
}

// And rounded to them.
template <class T>
void narrow(const float* x, T* y, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store_rounded(y + i, load(x + i));
  for (; i < count; ++i) y[i] = T(x[i]);
}

// make.operator()<T>() for the T of f32, f16 or bf16; null for other dtypes.
template <class Make>
auto with_element(DType dtype, Make make) -> decltype(make.template operator()<float>()) {
  switch (dtype) {
    case DType::f32:
      return make.template operator()<float>();
    case DType::f16:
      return make.template operator()<Half>();
    case DType::bf16:
      return make.template operator()<BFloat>();
    default:
      return nullptr;
  }
}

}  // namespace gabbro::cpu::GABBRO_ISA
