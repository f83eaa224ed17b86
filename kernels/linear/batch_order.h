// Order of the f16 activations of a small batch (linear_batch.cc), in which lanes or the matrix cores read them.
#pragma once

#include "kernels/gpu/matrix.h"
#include "kernels/linear/linear.h"

namespace gabbro::gpu::GABBRO_GPU {

// True where products of four waves together read them: from two tiles of tokens on, from where it pays.
constexpr bool takes_together(i32 tile_tokens) {
#ifdef GABBRO_TOGETHER
  constexpr bool kTarget = true;
#else
  constexpr bool kTarget = false;
#endif
  return kTarget && tile_tokens > static_cast<i32>(kTile);
}

// The place of a column within a step of kBatchDepth of them: in one of its vectors of 8 elements. Columns 2i and 2i +
// 1 are neighbors; eight are, from a multiple of eight on, but where takes_together().
struct StepPlace {
  i32 vector, element;
};
GPU_FUNCTION inline StepPlace step_place(i32 column, bool together, bool blocks) {
  const i32 c = column % kBatchDepth;
  if (!together) return {c / 8, c % 8};
  // A lane has four elements of a product, two of each half of k. In a step, lane c / 32 has column c, or,
  // for weights that are not quantized, lane c % 32 / 8.
  const i32 product = blocks ? c % 32 / 4 : c / 32 * 2 + c % 8 / 4, lane = blocks ? c / 32 : c % 32 / 8;
  return {product * 2 + c % 4 / 2, lane * 2 + c % 2};
}
// First element of such a vector of token `token` of a tile, in the tile's step.
GPU_FUNCTION constexpr i32 together_vector(i32 token, i32 vector, i32 tile) {
  return (vector * (tile / 8) + token / 8) * 64 + token % 8 * 8;
}

// Place of element `column` of `token`, of `padded` tokens.
GPU_FUNCTION inline i64 batch_place(i32 token, i32 column, i32 padded, bool blocks) {
  const i32 tile = min_of(padded, kMaxBatchTile);
  if (!takes_together(tile)) return batch_vector(token, column / 8, padded, blocks) * 8 + column % 8;
  const StepPlace at = step_place(column, true, blocks);
  const i64 first = (static_cast<i64>(column / kBatchDepth) * (padded / tile) + token / tile) * tile * kBatchDepth;
  return first + together_vector(token % tile, at.vector, tile) + at.element;
}

// Consecutive rows of activations, each with the vectors of its steps in order: column of a row.
GPU_FUNCTION inline i32 row_place(i32 column, bool together, bool blocks) {
  const StepPlace at = step_place(column, together, blocks);
  return column / kBatchDepth * kBatchDepth + at.vector * 8 + at.element;
}
// First element of vector `vector` of a step of such a row, in the tile whose token `token` it is.
template <int tile>
GPU_FUNCTION inline i32 tile_vector(i32 token, i32 vector, bool blocks) {
  if (takes_together(tile)) return together_vector(token, vector, tile);
  return static_cast<i32>(batch_vector(token, vector, tile, blocks)) * 8;
}

}  // namespace gabbro::gpu::GABBRO_GPU
