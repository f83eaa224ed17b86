// The end of every product: sums over the wave where tokens are few, bias, epilogue.
#pragma once

#include "kernels/gpu/gpu.h"
#include "kernels/linear/linear.h"

namespace gabbro::gpu::GABBRO_GPU {

GPU_FUNCTION inline float silu(float x) { return x / (1 + exp(-x)); }

template <class Args>
GPU_FUNCTION inline float residual_of(const Args& a, const LinearMatrix& m, i32 row, i32 token) {
  return a.epilogue == Epilogue::kAdd ? a.residual[static_cast<i64>(token) * m.rows + row] : 0;
}

// A result of matrix `m`, from the sums of products; `second` is the second matrix's with kSiluMul.
template <class Args>
GPU_FUNCTION inline float finished(const Args& a, const LinearMatrix& m, i32 row, float value, float second,
                                   float residual) {
  if (m.bias != nullptr) value += m.bias[row];
  if (a.epilogue == Epilogue::kSiluMul) {
    if (a.matrices[1].bias != nullptr) second += a.matrices[1].bias[row];
    value = silu(value) * second;
  }
  return a.epilogue == Epilogue::kAdd ? value + residual : value;
}

// Stores the result to y at (token, row).
template <class Args>
GPU_FUNCTION inline void store_product(const Args& a, const LinearMatrix& m, i32 row, i32 token, float value,
                                       float second, float residual) {
  m.y[static_cast<i64>(token) * m.rows + row] = finished(a, m, row, value, second, residual);
}
template <class Args>
GPU_FUNCTION inline void store_product(const Args& a, const LinearMatrix& m, i32 row, i32 token, float value,
                                       float second) {
  store_product(a, m, row, token, value, second, residual_of(a, m, row, token));
}

// Matrix and rows of a wave.
struct WaveRows {
  int matrix;  // -1: there is nothing left for it
  i32 row;     // the first of kWaveRows; rows past the matrix's end do not exist
};

GPU_FUNCTION inline WaveRows wave_rows(const LinearArgs& a) {
  i32 wave = static_cast<i32>(block_index().x * (block_size() / kWave) + wave_index());
  if (wave >= a.waves) return {-1, 0};
  int matrix = 0;
  if (a.epilogue != Epilogue::kSiluMul) {
    while (wave >= waves_of(a.matrices[matrix].rows)) wave -= waves_of(a.matrices[matrix++].rows);
  }
  return {matrix, wave * kWaveRows};
}

// `sums` [kWaveRows][W] are this lane's shares of the wave's rows for tokens `token` to token + W - 1; `second` those
// of the second matrix where the epilogue is kSiluMul. Tokens and rows past the end repeat the last one, and are not
// stored.
template <int W>
GPU_FUNCTION inline void finish_rows(const LinearArgs& a, const WaveRows& at, i32 token, const float* sums,
                                     const float* second) {
  const LinearMatrix& m = a.matrices[at.matrix];
#pragma unroll
  for (int i = 0; i < kWaveRows * W; ++i) {
    const i32 row = at.row + i / W, t = token + i % W;
    const float value = wave_sum(sums[i]);
    const float factor = a.epilogue == Epilogue::kSiluMul ? wave_sum(second[i]) : 0;
    if (lane() == 0 && row < m.rows && t < a.tokens) store_product(a, m, row, t, value, factor);
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU
