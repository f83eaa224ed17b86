// Plain weights: 16 bytes at a time.
#pragma once

#include "kernels/gpu/gpu.h"

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

}  // namespace gabbro::gpu::GABBRO_GPU
