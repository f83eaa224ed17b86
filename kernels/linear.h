// Arguments of the kernels of `linear` and `linear_fused`.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

// Activations [T, K], rounded to 8 bits: grid (T, slices of K), a block each.
struct QuantiseRowsArgs {
  const float* x;
  const float* norm;  // [K]: RMSNorm before; or null
  i8* codes;          // [T][K]
  float* scales;      // [T][K/32]: amax / 127
  i32* sums;          // [T][K/16]: of the codes
  i32 columns;
  i32 slice;  // columns of a block, a multiple of the wave
  float epsilon;
};

enum class Epilogue : i32 { kNone, kAdd, kSiluMul };

// One matrix of a launch: packed planes (kernels/packing.h), or rows of plain elements.
struct LinearMatrix {
  const u8* low;  // or the plain elements
  const u8* high;
  const u8* scales;
  const u8* super_scales;
  const float* bias;  // [rows] or null
  float* y;           // [T][rows]
  i32 rows;
  i64 row_step;  // of plain elements
};

inline constexpr int kMaxMatrices = 3;
// Neighbouring rows that a wave handles together: activations are read once for them.
inline constexpr int kWaveRows = 2;
// Of one token, up to here: a block keeps the whole of it, rounded.
inline constexpr int kMaxOneColumns = 16384;

// Waves that a matrix of `rows` rows takes.
constexpr i32 waves_of(i64 rows) { return static_cast<i32>((rows + kWaveRows - 1) / kWaveRows); }

// y = x·Wᵀ for up to three matrices of one format: a wave kWaveRows rows, grid.y tiles of tokens. With kSiluMul the
// rows of the first two go together: silu(y0)·y1. The kernels for one token round and normalise x themselves; a wave
// handles kWaveRows rows of one matrix, or with kSiluMul one row of both.
struct LinearArgs {
  LinearMatrix matrices[kMaxMatrices];
  i32 count;
  i32 waves;  // of all matrices; with kSiluMul of one
  i32 columns;
  i32 tokens;
  Epilogue epilogue;
  const float* residual;  // [T][rows]
  const float* x;         // plain weights, and one token
  const float* norm;      // one token: [K] of an RMSNorm before; or null
  float epsilon;
  const i8* codes;  // quantised weights: see QuantiseRowsArgs
  const float* scales;
  const i32* sums;
};

// Rows of a matrix as f32: of `embedding` (ids) or `dequantize` (null ids: all rows).
struct ReadRowsArgs {
  LinearMatrix matrix;
  const i32* ids;
  float* y;  // [T][K]
  i32 columns;
};

}  // namespace gabbro::gpu
