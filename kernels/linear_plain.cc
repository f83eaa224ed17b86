// f32, f16 and bf16 weights times few tokens: a wave a row, products in f32.
#include "kernels/linear_finish.h"

namespace gabbro::gpu::GABBRO_GPU {

// 16 bytes of weights as floats.
template <class T>
struct PlainVector {
  static constexpr int kCount = 16 / sizeof(T);
  float value[kCount];
};
template <class T>
GPU_FUNCTION inline PlainVector<T> load_plain(const u8* p) {
  const Quad quad = load_quad(p);
  PlainVector<T> vector;
#pragma unroll
  for (int i = 0; i < PlainVector<T>::kCount; ++i) {
    if constexpr (sizeof(T) == 4) {
      vector.value[i] = bits_to_float(quad.word[i]);
    } else {
      vector.value[i] = to_float(T{static_cast<u16>(quad.word[i / 2] >> (i % 2 * 16))});
    }
  }
  return vector;
}

// `whole`: rows and K are multiples of 16 bytes; otherwise element by element.
template <class T, int W, bool whole>
GPU_FUNCTION inline void dot_plain_row(const LinearMatrix& m, i64 row, const LinearArgs& a, i32 token, float* sums) {
  const u8* weights = m.low + row * m.row_step;
  const float* x[W];
#pragma unroll
  for (int t = 0; t < W; ++t) x[t] = a.x + static_cast<i64>(min_of(token + t, a.tokens - 1)) * a.columns;
  if constexpr (whole) {
    constexpr int kCount = PlainVector<T>::kCount;
    for (i32 k = static_cast<i32>(lane()) * kCount; k < a.columns; k += static_cast<i32>(kWave) * kCount) {
      const PlainVector<T> w = load_plain<T>(weights + k * static_cast<i64>(sizeof(T)));
#pragma unroll
      for (int t = 0; t < W; ++t) {
        for (int i = 0; i < kCount; ++i) sums[t] = fma(w.value[i], x[t][k + i], sums[t]);
      }
    }
  } else {
    const T* elements = reinterpret_cast<const T*>(weights);
    for (i32 k = static_cast<i32>(lane()); k < a.columns; k += static_cast<i32>(kWave)) {
      const float w = to_float(elements[k]);
#pragma unroll
      for (int t = 0; t < W; ++t) sums[t] = fma(w, x[t][k], sums[t]);
    }
  }
}

template <class T, int W, bool whole>
GPU_FUNCTION inline void linear_plain(const LinearArgs& a) {
  i32 row = static_cast<i32>(block_index().x * (block_size() / kWave) + wave_index());
  if (row >= a.rows) return;
  const i32 token = static_cast<i32>(block_index().y) * W;
  int which = 0;
  if (a.epilogue != Epilogue::kSiluMul) {
    while (row >= a.matrices[which].rows) row -= a.matrices[which++].rows;
  }
  const LinearMatrix& m = a.matrices[which];
  float sums[W] = {}, second[W] = {};
  dot_plain_row<T, W, whole>(m, row, a, token, sums);
  if (a.epilogue == Epilogue::kSiluMul) dot_plain_row<T, W, whole>(a.matrices[1], row, a, token, second);
  finish_row<W>(a, m, row, token, sums, second);
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_LINEAR_WIDTH(name, T, W)                                                   \
  GPU_KERNEL(linear_##name##_##W, 256, gabbro::gpu::LinearArgs, linear_plain<T, W, true>) \
  GPU_KERNEL(linear_##name##_##W##_any, 256, gabbro::gpu::LinearArgs, linear_plain<T, W, false>)
#define GABBRO_LINEAR(name, T)    \
  GABBRO_LINEAR_WIDTH(name, T, 1) \
  GABBRO_LINEAR_WIDTH(name, T, 2) \
  GABBRO_LINEAR_WIDTH(name, T, 4) \
  GABBRO_LINEAR_WIDTH(name, T, 8)

GABBRO_LINEAR(f32, float)
GABBRO_LINEAR(f16, gabbro::gpu::Half)
GABBRO_LINEAR(bf16, gabbro::gpu::BFloat)
