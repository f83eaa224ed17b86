// The part of the vocabulary for matrix cores: products of 16×16 tiles of halves, summed in f32, by all lanes of a wave
// together. A Fragment is an operand, 16 rows by 16 of the products' common axis k; an Accumulator is a tile of sums.
// How a wave's lanes share a fragment is the target's affair; of an accumulator they know it:
//   Accumulator::kCount         sums that a lane holds
//   row_of(i), column_of(i)     where this lane's sum i stands in the tile
//   kRowSlots, row_slot(i)      how many rows of a tile a lane has sums of, and which of them sum i belongs to
//   row_max(x), row_sum(x)      over the lanes that have sums of the same rows
// Operations:
//   load_fragment(tile, pitch)         element (row, k) is tile[row * pitch + k]; rows begin at multiples of 16 bytes
//   load_fragment_turned(tile, pitch)  element (row, k) is tile[k * pitch + row]; likewise
//   multiply(a, b, sums)               sums += a·bᵀ: rows of `a` are its rows, rows of `b` its columns
//   to_fragment(sums)                  rounded to halves; columns become k
// Tiles lie in memory of the block. What lands there meanwhile:
//   TileCopy<count>                    up to `count` copies of 16 bytes a thread: begin(i, to, from, inside) each
//   (zeros
//                                      where it is not inside), then sent(), later landed<later>(), with `later` the
//                                      TileCopies sent after it that may still be under way. A barrier comes after
//                                      that.
// And pairs of halves in a word, the first in its lower bits:
//   pack_halves(x, y), add_halves(a, b), fma_halves(a, b, c)
//   spread_bytes(word, halves)         1024 + each of four unsigned bytes, exactly, as two pairs
#pragma once

#include "kernels/gpu/gpu.h"

#if defined(__HIPCC__) || defined(__HIPCC_RTC__)
#include "kernels/gpu/hip_matrix.h"
#elif defined(__CUDACC__)
#include "kernels/gpu/cuda_matrix.h"
#else
#include "kernels/gpu/sim_matrix.h"
#endif

namespace gabbro::gpu::GABBRO_GPU {

inline constexpr u32 kTile = 16;  // rows, columns and depth of a product

GPU_FUNCTION inline void store_quad(void* p, const Quad& quad) { *static_cast<Quad*>(p) = quad; }

}  // namespace gabbro::gpu::GABBRO_GPU
