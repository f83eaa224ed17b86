// f32, f16 and bf16 weights times few tokens: a wave a row, products in f32.
#include "kernels/linear/linear_finish.h"
#include "kernels/linear/plain.h"

namespace gabbro::gpu::GABBRO_GPU {

template <class T, int W, bool whole>
GPU_FUNCTION inline void dot_plain_rows(const LinearMatrix& m, i32 row, const LinearArgs& a, i32 token, float* sums) {
  dot_plain<T, W, whole, 4>([&](int r) { return m.low + min_of(row + r, m.rows - 1) * m.row_step; },
                            [&](int t) { return a.x + static_cast<i64>(min_of(token + t, a.tokens - 1)) * a.columns; },
                            a.columns, sums);
}

// Asks for what the wave reads first, while the launch ahead still computes its activations.
GPU_FUNCTION inline void prefetch_plain_rows(const LinearMatrix& m, i32 row, i64 row_bytes) {
#pragma unroll
  for (int r = 0; r < kWaveRows; ++r) {
    const i64 at = static_cast<i64>(lane()) * 128;
    prefetch(m.low + min_of(row + r, m.rows - 1) * m.row_step + min_of(at, row_bytes - 1));
  }
}

template <class T, int W, bool whole>
GPU_FUNCTION inline void linear_plain(const LinearArgs& a) {
  const WaveRows at = wave_rows(a);
  if (at.matrix < 0) return wait_for_previous();
  const i32 token = static_cast<i32>(block_index().y) * W;
  const bool paired = a.epilogue == Epilogue::kSiluMul;
  const i64 row_bytes = a.columns * static_cast<i64>(sizeof(T));
  prefetch_plain_rows(a.matrices[at.matrix], at.row, row_bytes);
  if (paired) prefetch_plain_rows(a.matrices[1], at.row, row_bytes);
  wait_for_previous();
  float sums[kWaveRows * W] = {}, second[kWaveRows * W] = {};
  dot_plain_rows<T, W, whole>(a.matrices[at.matrix], at.row, a, token, sums);
  if (paired) dot_plain_rows<T, W, whole>(a.matrices[1], at.row, a, token, second);
  finish_rows<W>(a, at, token, sums, second);
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_LINEAR_WIDTH(name, T, W)                                                         \
  GPU_EARLY_KERNEL(linear_##name##_##W, 256, gabbro::gpu::LinearArgs, linear_plain<T, W, true>) \
  GPU_EARLY_KERNEL(linear_##name##_##W##_any, 256, gabbro::gpu::LinearArgs, linear_plain<T, W, false>)
// One token is a matter of linear_one.cc, where rows are whole vectors.
#define GABBRO_LINEAR(name, T)    \
  GABBRO_LINEAR_WIDTH(name, T, 2) \
  GABBRO_LINEAR_WIDTH(name, T, 4) \
  GABBRO_LINEAR_WIDTH(name, T, 8)

GABBRO_LINEAR(f32, float)
GABBRO_LINEAR(f16, gabbro::gpu::Half)
GABBRO_LINEAR(bf16, gabbro::gpu::BFloat)
