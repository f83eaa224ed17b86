// The part of the vocabulary for matrix cores: products of 16×16 tiles of halves, summed in f32, by all lanes of a wave
// together. A Fragment is the first operand, 16 rows by 16 of the products' common axis k; Columns are the second, the
// same of the columns of sums; an Accumulator is a tile of sums.
// How a wave's lanes share a fragment is the target's affair; of an accumulator they know it:
//   Accumulator::kCount         sums that a lane holds
//   row_of(i), column_of(i)     where this lane's sum i stands in the tile
//   kRowSlots, row_slot(i)      how many rows of a tile a lane has sums of, and which of them sum i belongs to
//   kColumnPairs                whether sums 2i and 2i + 1 stand beside each other, the first in an even column
//   row_max(x), row_sum(x)      over the lanes that have sums of the same rows
//   add_row_halves(sums)        adds row r + 8 to row r, and the other way round
// Operations:
//   load_fragment(tile, pitch)         element (row, k) is tile[row * pitch + k]; rows begin at multiples of 16 bytes
//   load_columns(tile, pitch)          element (column, k) is tile[column * pitch + k]; likewise
//   load_turned(tile, pitch)           columns out of a TurnedTile, for its load()
//   hold_loads()                       the compiler moves no load of what follows before those ahead of it: where
//                                      fragments are large, the loads of all of a loop find no registers
//   multiply<T>(a, b, sums)            sums += a·bᵀ; T: Half, or BFloat for tiles of these
//   to_fragment<T>(sums)               rounded; columns become k
// GABBRO_MATRIX_CORES says that the target has such cores, and is not made to do without.
//
// Tiles lie in memory of the block. What lands there meanwhile:
//   TileCopy<count>                    up to `count` copies of 16 bytes a thread: begin(i, to, from, inside) each
//   (zeros
//                                      where it is not inside), then sent(), later landed<later>(), with `later` the
//                                      TileCopies sent after it that may still be under way. A barrier comes after
//                                      that.
//   kCopiesPassRegisters               whether copies go past the registers, so that many can be under way
//   TurnedCopy<count, pitch>           the same into a TurnedTile, for its Copy
//   kLoadsTurn                         whether columns are loaded from where they do not lie together: see TurnedTile
// And pairs of halves in a word, the first in its lower bits:
//   pack_halves(x, y), pack_bfloats(x, y), pack<T>(x, y), add_halves(a, b), fma_halves(a, b, c)
//   spread_bytes(word, halves)         1024 + each of four unsigned bytes, exactly, as two pairs
#pragma once

#include "kernels/gpu/gpu.h"

namespace gabbro::gpu::GABBRO_GPU {

template <class T>
inline constexpr bool kIsBFloat = false;
template <>
inline constexpr bool kIsBFloat<BFloat> = true;

}  // namespace gabbro::gpu::GABBRO_GPU

#if defined(__HIPCC__) || defined(__HIPCC_RTC__)
#include "kernels/gpu/hip_matrix.h"
#elif defined(__CUDACC__)
#include "kernels/gpu/cuda_matrix.h"
#else
#include "kernels/gpu/sim_matrix.h"
#endif

namespace gabbro::gpu::GABBRO_GPU {

inline constexpr u32 kTile = 16;  // rows, columns and depth of a product

GPU_FUNCTION inline Accumulator add_row_halves(const Accumulator& sums) {
  Accumulator both;
#pragma unroll
  for (int i = 0; i < Accumulator::kCount; ++i) {
    both.value[i] = sums.value[i] + (kRowSlots == 2 ? sums.value[i ^ 2] : shuffle_xor(sums.value[i], 8));
  }
  return both;
}

GPU_FUNCTION inline void store_quad(void* p, const Quad& quad) { *static_cast<Quad*>(p) = quad; }

// A tile of columns that comes the other way round, `depth` rows k of `width` columns. Where loads turn it, it lies as
// it comes; elsewhere copies turn it, and a lane loads its part of a column by one instruction or two. Rows there are
// 16 bytes longer than they need, so that eight of them lie in all banks.
template <int depth, int width>
struct TurnedTile {
  static constexpr u32 kPitch = (kLoadsTurn ? width : depth) + 8;
  static constexpr u32 kHalves = (kLoadsTurn ? depth : width) * kPitch;

  GPU_FUNCTION static u32 place(u32 k, u32 column) { return kLoadsTurn ? k * kPitch + column : column * kPitch + k; }
  // 16 columns from `column` on, of 16 rows from k on.
  GPU_FUNCTION static Columns load(const Half* tile, u32 k, u32 column) {
    return load_turned(tile + place(k, column), kPitch);
  }

  // Of `count` quads a thread: of the same columns, from row first_row() on in steps of row_step(), of the `threads`
  // that have these columns. Where copies turn them, a thread has rows that follow each other, else a wave has.
  template <int count>
  using Copy = TurnedCopy<count, kPitch>;
  static constexpr i32 row_step(i32 threads) { return kLoadsTurn ? threads : 1; }
  static constexpr i32 first_row(i32 thread, i32 count) { return kLoadsTurn ? thread : thread * count; }
};

// A tile of columns that lies as it comes, `width` columns of `depth` k each.
template <int depth, int width>
struct ColumnTile {
  static constexpr u32 kPitch = depth + 8;
  static constexpr u32 kHalves = width * kPitch;

  GPU_FUNCTION static u32 place(u32 k, u32 column) { return column * kPitch + k; }
  GPU_FUNCTION static Columns load(const Half* tile, u32 k, u32 column) {
    const Columns columns = load_columns(tile + place(k, column), kPitch);
    hold_loads();
    return columns;
  }
};

}  // namespace gabbro::gpu::GABBRO_GPU
