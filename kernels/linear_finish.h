// The end of every product with few tokens: sums over the wave, bias, epilogue.
#pragma once

#include "kernels/gpu/gpu.h"
#include "kernels/linear.h"

namespace gabbro::gpu::GABBRO_GPU {

GPU_FUNCTION inline float silu(float x) { return x / (1 + exp(-x)); }

// `sums` are this lane's shares of row `row` of `m` for tokens `token` to token + W - 1; `second` those of the second
// matrix where the epilogue is kSiluMul. Tokens past the end repeat the last one,
// and are not stored.
template <int W>
GPU_FUNCTION inline void finish_row(const LinearArgs& a, const LinearMatrix& m, i32 row, i32 token, const float* sums,
                                    const float* second) {
#pragma unroll
  for (int t = 0; t < W; ++t) {
    float value = wave_sum(sums[t]) + (m.bias == nullptr ? 0 : m.bias[row]);
    if (a.epilogue == Epilogue::kSiluMul) {
      const float* bias = a.matrices[1].bias;
      value = silu(value) * (wave_sum(second[t]) + (bias == nullptr ? 0 : bias[row]));
    }
    if (lane() != 0 || token + t >= a.tokens) continue;
    const i64 at = static_cast<i64>(token + t) * m.rows + row;
    if (a.epilogue == Epilogue::kAdd) value += a.residual[at];
    m.y[at] = value;
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU
