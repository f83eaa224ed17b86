// The vocabulary of matrix cores: products of 16×16 tiles of f16 or bf16, accumulated in f32, by all lanes of a wave.
// A Fragment is the first operand, 16 rows by 16 of the common axis k; Columns are the second operand, 16 columns by 16
// of k; an Accumulator is a tile of sums.
// The layout of a fragment depends on the target; that of an accumulator is known:
//   Accumulator::kCount         sums of a lane
//   row_of(i), column_of(i)     position of this lane's sum i in the tile
//   kRowSlots, row_slot(i)      number of rows that a lane has sums of, and the one that sum i belongs to
//   kColumnPairs                whether sums 2i and 2i + 1 are adjacent, the first in an even column
//   row_max(x), row_sum(x)      over the lanes that have sums of the same rows
//   add_row_pairs(sums)         adds row r + 8 to row r, and row r to row r + 8
// Operations:
//   load_fragment(tile, pitch)         element (row, k) is tile[row * pitch + k]; rows begin at multiples of 16 bytes
//   load_columns(tile, pitch)          element (column, k) is tile[column * pitch + k]; likewise
//   load_transposed(tile, pitch)       columns from a TransposedTile, for its load()
//   hold_loads()                       compiler fence for loads: with large fragments, the loads of a whole loop do not
//                                      fit in registers
//   multiply<T>(a, b, sums)            sums += a·bᵀ; T: Half or BFloat
//   to_fragment<T>(sums)               rounded; columns become k
// Products over a k whose order does not matter need no memory of the block: any elements may be a lane's, if they are
// the same of both operands.
//   kLaneRows, kLaneDepth              a lane has kLaneDepth elements of each of kLaneRows rows (or columns)
//   kDepthLanes                        16 / kLaneDepth: lanes that have elements of the same row
//   lane_row(i), lane_part()           the lane's row i, and which of the kDepthLanes parts of k is the lane's
//   fragment_of(words, first)          from words[kLaneRows][...], pairs of elements from number `first` on
//   columns_of(words, first)           likewise
// GABBRO_MATRIX_CORES is defined if the target has matrix cores and they are enabled.
// If GABBRO_TOGETHER is defined, four waves multiply in one instruction, each its own Fragment by columns in shared
// memory:
//   together_columns<columns>(tiles)   names the columns, whose order cuda_matrix.h describes
//   together_rows<row_step, k_step>(tile)    names rows in groups of eight, see cuda_matrix.h
//   WideProduct<T, columns>::add(a, columns, sums)    T: Half or BFloat
//   ... ::add_transposed(a, columns, sums)            of transposed_together_columns<rows>(tile)
//   RowsProduct<T, columns>::multiply(rows, columns, adds, sums)    rows in shared memory as well; without `adds` sums
//                                                                   begin at 0
//   begin_together(), sent_together(), done_together<later>(), show_together()
//   settle_together<count>(sums)       before sums are read
//   wave_barrier()                     between accesses of a wave's lanes to the block's memory
//   keep_branch()                      the compiler may not merge a branch with the other one
// GABBRO_LARGE_BLOCKS is defined if a block may have 227 KB of memory.
//
// Copies of tiles into the block's memory:
//   TileCopy<count>                    up to `count` copies of 16 bytes per thread: begin(i, to, from, inside) for each
//                                      (zeros if not inside), then sent(), later landed<later>(), where `later` is the
//                                      number of TileCopies sent after it that may still be in flight. A barrier
//                                      follows.
//   kCopiesPassRegisters               whether copies bypass the registers, so that many can be in flight; then
//                                      GABBRO_COPIES_PASS_REGISTERS is defined
//   TransposedCopy<count, pitch>       the same into a TransposedTile, for its Copy
//   kLoadsTranspose                    whether loads of columns transpose: see TransposedTile
// If GABBRO_BULK_COPIES is defined, a copy engine copies contiguous bytes, which a CopyBarrier in the block's memory
// counts:
//   begin_barrier(barrier, arrivals), show_barriers()    by one thread, then the block's barrier
//   expect_bytes(barrier, bytes), begin_bulk_copy(barrier, to, from, bytes)    by one thread, for a group of copies
//   arrive(barrier)                            by a wave, for a group of arrivals
//   wait_for_barrier(barrier, number)          for group `number`
// Pairs of f16 in a 32-bit word, the first in its lower bits:
//   pack_f16x2(x, y), pack_bfloats(x, y), pack<T>(x, y), add_f16x2(a, b), fma_f16x2(a, b, c)
//   spread_bytes(word, pairs)          1024 + each of four unsigned bytes, exactly, as two pairs
#pragma once

#include "kernels/gpu/gpu.h"

#if defined(__HIPCC__) || defined(__HIPCC_RTC__)
#include "kernels/gpu/hip_matrix.h"
#elif defined(__CUDACC__)
#include "kernels/gpu/cuda_matrix.h"
#endif

namespace gabbro::gpu::GABBRO_GPU {

inline constexpr u32 kTile = 16;  // rows, columns and depth of a product

// multiply() where the sums of the last eight columns do not count.
#ifndef GABBRO_MULTIPLIES_EIGHT
GPU_FUNCTION inline void multiply_eight(const Fragment& a, const Columns& b, Accumulator& sums) {
  multiply(a, b, sums);
}
#endif

GPU_FUNCTION inline Accumulator add_row_pairs(const Accumulator& sums) {
  Accumulator both;
#pragma unroll
  for (int i = 0; i < Accumulator::kCount; ++i) {
    both.value[i] = sums.value[i] + (kRowSlots == 2 ? sums.value[i ^ 2] : shuffle_xor(sums.value[i], 8));
  }
  return both;
}

GPU_FUNCTION inline void store_vec16(void* p, const Vec16& vec) { *static_cast<Vec16*>(p) = vec; }

// A tile of columns from a source that is stored transposed, `depth` rows k of `width` columns. If loads transpose, the
// tile keeps the source's layout; else copies transpose it, and a lane loads its part of a column by one or two
// instructions. Rows have 16 bytes of padding, which spread eight of them over all banks.
template <int depth, int width>
struct TransposedTile {
  static constexpr u32 kPitch = (kLoadsTranspose ? width : depth) + 8;
  static constexpr u32 kElements = (kLoadsTranspose ? depth : width) * kPitch;

  GPU_FUNCTION static u32 place(u32 k, u32 column) {
    return kLoadsTranspose ? k * kPitch + column : column * kPitch + k;
  }
  // 16 columns from `column` on, of 16 rows from k on.
  GPU_FUNCTION static Columns load(const Half* tile, u32 k, u32 column) {
    return load_transposed(tile + place(k, column), kPitch);
  }
  // 16-byte vectors of the copy: `count` per thread, all of the same columns, from row first_row() in steps of
  // row_step(), for the `threads` that have these columns. If copies transpose, a thread has consecutive rows, else a
  // wave has.
  template <int count>
  using Copy = TransposedCopy<count, kPitch>;
  static constexpr i32 row_step(i32 threads) { return kLoadsTranspose ? threads : 1; }
  static constexpr i32 first_row(i32 thread, i32 count) { return kLoadsTranspose ? thread : thread * count; }
};

// A tile of columns in the source's layout, `width` columns of `depth` k each.
template <int depth, int width>
struct ColumnTile {
  static constexpr u32 kPitch = depth + 8;
  static constexpr u32 kElements = width * kPitch;

  GPU_FUNCTION static u32 place(u32 k, u32 column) { return column * kPitch + k; }
  GPU_FUNCTION static Columns load(const Half* tile, u32 k, u32 column) {
    const Columns columns = load_columns(tile + place(k, column), kPitch);
    hold_loads();
    return columns;
  }
};

}  // namespace gabbro::gpu::GABBRO_GPU
