// Arguments of the kernels of `linear` and `linear_fused`.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

// Activations [T, K], rounded to 8 bits: grid (T, slices of K), a block each.
struct QuantizeRowsArgs {
  const float* x;
  const float* norm;  // [K]: RMSNorm before; or null
  i8* codes;          // [T][K]
  float* scales;      // [T][K/32]: amax / 127
  i32* sums;          // [T][K/16]: of the codes
  i32 columns;
  i32 slice;  // columns of a block, a multiple of the wave
  float epsilon;
};

// Threads of a block that converts a row, of a wide one or of a few tokens: many, for the latency.
inline constexpr int kConvertThreads = 1024;
// 16-byte vectors of a row that a thread holds: 4096 columns with kLinearThreads, 16384 with kConvertThreads.
inline constexpr int kConvertedRowVectors = 4, kConvertedWideRowVectors = 4;
// Threads for a part of a row of a small batch: 2560 columns. An 8B model has parts of up to 2432; with 256, 384 or 512
// threads 64 sequences of it on an H200 lose 0.2 to 0.8 %.
inline constexpr int kPartThreads = 320, kConvertedPartVectors = 2;

// Activations [T, K] as f16 for matrix cores: grid T, a block each. A row whose largest element is below 2⁻⁴, or not
// below 2¹⁵, is scaled by a power of two to 2¹⁴ or above: nothing overflows, and few elements are subnormal.
struct ConvertRowsArgs {
  const float* x;
  const float* norm;  // [K]: RMSNorm before; or null
  Half* f16;          // [T][depth], zeros from K on
  float* scales;      // [T]: what undoes the multiplication
  i32 columns;        // K, a multiple of 4
  i32 depth;          // K in whole tiles
  float epsilon;
};

// Converts silu(first · s) · (second · s), [T, K] each; s removes the scale of the activations that they
// are products of.
struct ConvertGatedArgs {
  const float* first;
  const float* second;
  const float* scales_before;  // [T]
  Half* f16;
  float* scales;
  i32 columns;
  i32 depth;
};

enum class Epilogue : i32 { kNone, kAdd, kSiluMul };

// One matrix of a launch: packed planes (kernels/linear/packing.h), or rows of plain elements.
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
inline constexpr int kLinearThreads = 256;  // of a block, where nothing else is said
// Neighboring rows that a wave handles together: activations are read once for them.
inline constexpr int kWaveRows = 2;

// Most columns of quantized weights in decode: a block keeps the whole token, rounded.
inline constexpr int kMaxOneColumns = 16384;
// Decode with plain weights: threads of a block that go over a row together, each with one chunk of it or more.
inline constexpr int kOneThreads = 512;
inline constexpr int kMaxSlots = 4;
struct OneRow {
  i32 slots;    // chunks of a thread: 1, 2, or 4; 0: the row is too long
  i32 threads;  // whole waves
};
constexpr OneRow one_row_of(i64 chunks, i64 wave) {
  for (int slots = 1; slots <= kMaxSlots; slots *= 2) {
    const i64 threads = ((chunks + slots - 1) / slots + wave - 1) / wave * wave;
    if (threads <= kOneThreads) return {slots, static_cast<i32>(threads)};
  }
  return {};
}

// Waves that a matrix of `rows` rows takes.
constexpr i32 waves_of(i64 rows) { return static_cast<i32>((rows + kWaveRows - 1) / kWaveRows); }

// y = x·Wᵀ for up to three matrices of one format: a wave kWaveRows rows, grid.y tiles of tokens. With kSiluMul the
// rows of the first two go together: silu(y0)·y1. The kernels for one token round and normalize x themselves.
struct LinearArgs {
  LinearMatrix matrices[kMaxMatrices];
  i32 count;
  i32 waves;        // of all matrices; with kSiluMul of one
  i32 row_threads;  // one token: see one_row_of()
  i32 columns;
  i32 tokens;
  Epilogue epilogue;
  const float* residual;  // [T][rows]
  const float* x;         // plain weights, and one token
  const float* norm;      // one token: [K] of an RMSNorm before; or null
  float epsilon;
  const i8* codes;  // quantized weights: see QuantizeRowsArgs
  const float* scales;
  const i32* sums;
};

// Tiles of the products with many tokens, on matrix cores: a block a tile.
inline constexpr int kTileRows = 128;         // of weights; with kSiluMul half of them are the second matrix's
inline constexpr int kTileDepth = 32;         // columns in a block's memory at a time
inline constexpr int kLargeTileTokens = 128;  // tokens of a tile, or
inline constexpr int kSmallTileTokens = 32;
inline constexpr int kTiledThreads = 128;

// Grid (tiles of tokens, tiles of rows of all matrices): neighboring blocks read the same weights.
struct LinearTiledArgs {
  LinearMatrix matrices[kMaxMatrices];
  i32 columns;
  i32 tokens;
  Epilogue epilogue;
  const float* residual;  // [T][rows]
  const Half* f16;        // see ConvertRowsArgs
  const float* scales;
  i32 depth;
};

// Products of a small batch of tokens on matrix cores, bound by memory: a wave has a tile of up to 16 rows; with
// kSiluMul its neighbor has the same rows of the second matrix.
inline constexpr int kBatchRows = 16;
inline constexpr int kBatchDepth = 128;  // the activations have whole multiples of it
inline constexpr int kMaxBatchTile = 64;
inline constexpr int kBatchThreads = 256;
inline constexpr int kOwnTokens = 8;  // whose activations each block converts for itself

// Order of the f16 activations of a small batch. A vector is 8 elements: for each 16 of them along K, and eight tokens,
// 4 x 8 x 4 vectors, so that a wave loads consecutive ones. In the 16, the first axis is a vector's number in its block
// of 32 and the last the block's, or, for weights that are not quantized, the other way around.
constexpr i64 batch_vector(i32 token, i32 vector, i32 tokens, bool blocks) {
  const i32 inner = vector % 4, outer = vector / 4 % 4;
  const i64 tile = static_cast<i64>(vector / 16) * (tokens / 8) + token / 8;
  return ((tile * 4 + (blocks ? inner : outer)) * 8 + token % 8) * 4 + (blocks ? outer : inner);
}

// Activations [T, K] as f16 in that order, scaled as in ConvertRowsArgs, but each part of a row separately, and
// with an RMSNorm x·weight: what is multiplied divides the sums by rms(x). Grid (padded tokens, parts), a part whole
// steps of kBatchDepth; tokens past the end are zeros.
struct ConvertBatchArgs {
  const float* x;
  const float* norm;  // [K], or null
  Half* f16;          // zeros from K on
  float* scales;      // [T][parts]: what undoes the multiplication
  float* squares;     // with a norm: [T][parts], sums of x²
  i32 columns;        // K, a multiple of 4
  i32 depth;          // K in whole steps
  i32 tokens, padded;
  bool blocks;
};
// Columns from which a part has them.
constexpr i32 batch_part(i32 depth, i32 part, i32 parts) {
  return static_cast<i32>(static_cast<i64>(part) * (depth / kBatchDepth) / parts) * kBatchDepth;
}

// Grid (tiles / waves of a block, tiles of tokens, splits of K).
struct LinearBatchArgs {
  LinearMatrix matrices[kMaxMatrices];
  i32 tile_rows;  // up to kBatchRows: fewer where more blocks share the rows then
  i32 tiles;      // of all matrices
  i32 columns;
  i32 tokens, padded;
  Epilogue epilogue;
  const float* residual;  // [T][rows]
  const Half* f16;        // see ConvertBatchArgs, and
  const float* scales;
  const float* row_squares;
  i32 parts;          // of the rows: as many as splits, or one
  const float* x;     // up to kOwnTokens tokens: [T][K]
  const float* norm;  // [K] of an RMSNorm before, or null
  float epsilon;
  float* partials;  // [tiles of tokens][tiles][splits][kBatchRows x tile of tokens]
  float* squares;   // up to kOwnTokens tokens with a norm: [grid.x][splits][kOwnTokens]
  u32* arrived;     // zeros, two for each block of a split
};
// Tiles that a matrix of `rows` rows takes.
constexpr i32 batch_tiles(i64 rows, i32 tile_rows, Epilogue epilogue) {
  const auto tiles = static_cast<i32>((rows + tile_rows - 1) / tile_rows);
  return epilogue == Epilogue::kSiluMul ? 2 * tiles : tiles;
}

// Quantized weights become f16 values of this times the weight, which the GEMM's epilogue undoes: in formats with
// sub-scales many weights are below the smallest normal f16, and none is near 4096.
inline constexpr float kWeightScale = 16;

// Rows of a matrix as f16 [rows][K]: blocks of kLinearThreads threads, a thread 32 weights or, of bf16, 8.
struct ConvertWeightsArgs {
  LinearMatrix matrix;
  Half* f16;
  i32 first_row;
  i32 rows;
  i32 columns;
};

// Bias and epilogue for products already stored in the matrices' y: grid (T, kFinishRows of the rows each).
struct LinearFinishArgs {
  LinearMatrix matrices[2];  // with kSiluMul both, and the result goes to the first's y
  Epilogue epilogue;
  const float* residual;  // [T][rows]
  const float* scales;    // see ConvertRowsArgs
};
inline constexpr i32 kFinishRows = 8 * kLinearThreads;

// Tiles that a matrix of `rows` rows takes.
constexpr i32 row_tiles(i64 rows, Epilogue epilogue) {
  const i64 own = epilogue == Epilogue::kSiluMul ? kTileRows / 2 : kTileRows;
  return static_cast<i32>((rows + own - 1) / own);
}

// Rows of a matrix as f32: of `embedding` (ids) or `dequantize` (null ids: all rows).
struct ReadRowsArgs {
  LinearMatrix matrix;
  const i32* ids;
  float* y;  // [T][K]
  i32 columns;
};

}  // namespace gabbro::gpu
