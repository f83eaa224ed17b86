// Plain weights: 16 bytes at a time.
#pragma once

#include "kernels/gpu/gpu.h"
#include "kernels/linear/linear.h"

namespace gabbro::gpu::GABBRO_GPU {

// 16 bytes of weights as floats.
template <class T>
struct PlainVector {
  static constexpr int kCount = 16 / sizeof(T);
  float value[kCount];
};
template <class T>
GPU_FUNCTION inline PlainVector<T> plain_of(const Vec16& vec) {
  PlainVector<T> vector;
#pragma unroll
  for (int i = 0; i < PlainVector<T>::kCount; ++i) {
    if constexpr (sizeof(T) == 4) {
      vector.value[i] = bits_to_float(vec.word[i]);
    } else {
      vector.value[i] = to_float(T{static_cast<u16>(vec.word[i / 2] >> (i % 2 * 16))});
    }
  }
  return vector;
}
template <class T>
GPU_FUNCTION inline PlainVector<T> load_plain(const u8* p) {
  return plain_of<T>(load_vec16(p));
}

// This lane's part of the products of kWaveRows rows of weights with W tokens, added to sums [kWaveRows][W]: row_of(r)
// and x_of(t) point to a row and a token. `whole`: rows and K are multiples of 16 bytes; otherwise element by element.
// `unroll`: vectors of a row that are loaded at once.
template <class T, int W, bool whole, int unroll, class RowOf, class XOf>
GPU_FUNCTION inline void dot_plain(RowOf row_of, XOf x_of, const i32& columns, float* sums) {
  const u8* weights[kWaveRows];
#pragma unroll
  for (int r = 0; r < kWaveRows; ++r) weights[r] = row_of(r);
  const float* x[W];
#pragma unroll
  for (int t = 0; t < W; ++t) x[t] = x_of(t);
  if constexpr (whole) {
    constexpr int kCount = PlainVector<T>::kCount;
#pragma unroll unroll
    for (i32 k = static_cast<i32>(lane()) * kCount; k < columns; k += static_cast<i32>(kWave) * kCount) {
      PlainVector<T> w[kWaveRows];
#pragma unroll
      for (int r = 0; r < kWaveRows; ++r) w[r] = load_plain<T>(weights[r] + k * static_cast<i64>(sizeof(T)));
#pragma unroll
      for (int t = 0; t < W; ++t) {
#pragma unroll
        for (int vec = 0; vec < kCount; vec += 4) {
          const PlainVector<float> values = load_plain<float>(reinterpret_cast<const u8*>(x[t] + k + vec));
#pragma unroll
          for (int r = 0; r < kWaveRows; ++r) {
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[r * W + t] = fma(w[r].value[vec + i], values.value[i], sums[r * W + t]);
          }
        }
      }
    }
  } else {
    for (i32 k = static_cast<i32>(lane()); k < columns; k += static_cast<i32>(kWave)) {
#pragma unroll
      for (int r = 0; r < kWaveRows; ++r) {
        const float w = to_float(reinterpret_cast<const T*>(weights[r])[k]);
#pragma unroll
        for (int t = 0; t < W; ++t) sums[r * W + t] = fma(w, x[t][k], sums[r * W + t]);
      }
    }
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU
