// Order of the f16 activations of a small batch (linear_batch.cc), in which lanes or the matrix cores read them.
#pragma once

#include "kernels/gpu/matrix.h"
#include "kernels/linear/linear.h"

namespace gabbro::gpu::GABBRO_GPU {

// True where products of four waves together read them: of quantized weights, whose conversion leaves registers alone
// that products under way still read, and from two tiles of tokens on, from where it pays.
constexpr bool takes_together(i32 tile_tokens, bool blocks) {
#ifdef GABBRO_TOGETHER
  constexpr bool kTarget = true;
#else
  constexpr bool kTarget = false;
#endif
  return kTarget && blocks && tile_tokens > static_cast<i32>(kTile);
}

// Place of element `column` of `token`, of `padded` tokens. Elements 2i and 2i + 1 are neighbors; eight are, from a
// multiple of eight on, but where takes_together().
GPU_FUNCTION inline i64 batch_place(i32 token, i32 column, i32 padded, bool blocks) {
  const i32 tile = min_of(padded, kMaxBatchTile);
  if (!takes_together(tile, blocks)) return batch_vector(token, column / 8, padded, blocks) * 8 + column % 8;
  // A lane has four elements of a product, of which each half of k has two. Column c of a step is of lane c / 32.
  const i32 c = column % kBatchDepth, product = c % 32 / 4, half = c % 4 / 2, own = token % tile;
  const i64 first = (static_cast<i64>(column / kBatchDepth) * (padded / tile) + token / tile) * tile * kBatchDepth;
  return first + ((product * 2 + half) * (tile / 8) + own / 8) * 64 + own % 8 * 8 + c / 32 * 2 + c % 2;
}

}  // namespace gabbro::gpu::GABBRO_GPU
