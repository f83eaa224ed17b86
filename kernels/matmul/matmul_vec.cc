// f32 matrix product with few vectors on one side, bound by reading the other side, "the matrix": y[i] is the product
// of row i of length `depth` with each vector. Two kernels: the matrix is contiguous along the depth, or across it.
#include "kernels/elementwise/strided_access.h"
#include "kernels/matmul/matmul.h"

namespace gabbro::gpu::GABBRO_GPU {

inline constexpr int kThreads = 256;
inline constexpr int kWaves = kThreads / static_cast<int>(kWave);

struct Four {
  float value[4];
};
// Elements from p[0] on; zeros after the `left` that exist.
GPU_FUNCTION inline Four load_four(const float* p, i64 left, bool aligned) {
  Four four = {};
  if (aligned && left >= 4) {
    const Vec16 vec = load_vec16(p);
#pragma unroll
    for (int i = 0; i < 4; ++i) four.value[i] = bits_to_float(vec.word[i]);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) four.value[i] = i < left ? p[i] : 0;
  }
  return four;
}

// A wave a row.
GPU_FUNCTION inline void matmul_vec_along(const MatmulVecArgs& a) {
  const i64 wave = static_cast<i64>(block_index().x) * kWaves + wave_index(), batch = wave / a.length;
  const i64 row = wave - batch * a.length;
  if (batch >= a.batches.total) return;
  i64 offsets[2];
  find_offsets<2>(a.batches, batch, offsets);
  const float *matrix = a.matrix + offsets[0] + row * a.matrix_step, *vectors = a.vectors + offsets[1];
  float sums[kMatmulVectors] = {};
#pragma unroll 4
  for (i64 k = lane() * 4; k < a.depth; k += kWave * 4) {
    const Four own = load_four(matrix + k, a.depth - k, a.aligned != 0);
#pragma unroll
    for (int v = 0; v < kMatmulVectors; ++v) {
      if (v >= a.count) break;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (k + i < a.depth)
          sums[v] = fma(own.value[i], vectors[v * a.vector_step + (k + i) * a.vector_depth_step], sums[v]);
      }
    }
  }
#pragma unroll
  for (int v = 0; v < kMatmulVectors; ++v) {
    if (v >= a.count) break;
    const float sum = wave_sum(sums[v]);
    if (lane() == 0) a.y[batch * a.length * a.count + row * a.y_step + v * a.y_vector_step] = sum;
  }
}

inline constexpr int kAcrossColumns = 4 * static_cast<int>(kWave);  // of the matrix, in a block

// The columns and the share of the depth that a block of matmul_vec_across has.
struct AcrossBlock {
  i64 batch;
  i64 first;          // column
  i32 share, shares;  // of the depth
};
GPU_INLINE inline AcrossBlock across_block() {
  const i64 batch = block_index().z, first = static_cast<i64>(block_index().x) * kAcrossColumns;
  return {batch, first, static_cast<i32>(block_index().y), static_cast<i32>(grid_size().y)};
}

// A thread's products of four columns with each vector, over every kWaves'th row of the block's share.
GPU_INLINE inline void multiply_across(const MatmulVecArgs& a, const AcrossBlock& block,
                                       float (&sums)[kMatmulVectors][4]) {
  i64 offsets[2];
  find_offsets<2>(a.batches, block.batch, offsets);
  const i64 column = block.first + lane() * 4, left = a.length - column;
  const float *matrix = a.matrix + offsets[0] + column, *vectors = a.vectors + offsets[1];
  const i64 each = (a.depth + block.shares - 1) / block.shares, end = min_of(a.depth, (block.share + 1) * each);
#pragma unroll 8
  for (i64 k = block.share * each + wave_index(); k < end; k += kWaves) {
    const Four own = load_four(matrix + k * a.matrix_step, left, a.aligned != 0);
#pragma unroll
    for (int v = 0; v < kMatmulVectors; ++v) {
      if (v >= a.count) break;
      const float x = vectors[v * a.vector_step + k * a.vector_depth_step];
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[v][i] = fma(own.value[i], x, sums[v][i]);
    }
  }
}

// parts: [kWaves][kMatmulVectors][kAcrossColumns]
GPU_INLINE inline void store_wave_parts(const float (&sums)[kMatmulVectors][4], float* parts) {
#pragma unroll
  for (int v = 0; v < kMatmulVectors; ++v) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      parts[(static_cast<int>(wave_index()) * kMatmulVectors + v) * kAcrossColumns + static_cast<int>(lane()) * 4 + i] =
          sums[v][i];
  }
}

GPU_INLINE inline float* across_result(const MatmulVecArgs& a, const AcrossBlock& block, int v, i64 column) {
  return a.y + block.batch * a.length * a.count + column * a.y_step + v * a.y_vector_step;
}

// Adds the waves' parts: the result, or with several shares the partial result of this one.
GPU_INLINE inline void add_wave_parts(const MatmulVecArgs& a, const AcrossBlock& block, const float* parts,
                                      float* partials) {
  for (int i = static_cast<int>(thread_index()); i < a.count * kAcrossColumns; i += kThreads) {
    const int v = i / kAcrossColumns, c = i % kAcrossColumns;
    if (block.first + c >= a.length) continue;
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWaves; ++w) sum += parts[(w * kMatmulVectors + v) * kAcrossColumns + c];
    if (block.shares == 1) {
      *across_result(a, block, v, block.first + c) = sum;
    } else {
      partials[(static_cast<i64>(block.share) * a.count + v) * a.length + block.first + c] = sum;
    }
  }
}

// Adds the shares' partial results, in their order.
GPU_INLINE inline void add_shares(const MatmulVecArgs& a, const AcrossBlock& block, const float* partials) {
  for (int i = static_cast<int>(thread_index()); i < a.count * kAcrossColumns; i += kThreads) {
    const int v = i / kAcrossColumns, c = i % kAcrossColumns;
    if (block.first + c >= a.length) continue;
    float sum = 0;
#pragma unroll 8
    for (i32 s = 0; s < block.shares; ++s)
      sum += load_shared_result(partials + (static_cast<i64>(s) * a.count + v) * a.length + block.first + c);
    *across_result(a, block, v, block.first + c) = sum;
  }
}

// A block has kAcrossColumns columns, four a lane, and a share of the depth, whose rows its waves take in turn.
GPU_FUNCTION inline void matmul_vec_across(const MatmulVecArgs& a) {
  GPU_SHARED(float, parts, kWaves* kMatmulVectors* kAcrossColumns);
  GPU_SHARED(u32, arrived, 1);
  const AcrossBlock block = across_block();
  float sums[kMatmulVectors][4] = {};
  multiply_across(a, block, sums);
  store_wave_parts(sums, parts);
  barrier();
  float* const partials = a.partials + block.batch * block.shares * a.count * a.length;
  add_wave_parts(a, block, parts, partials);
  if (block.shares == 1) return;
  // The last block of these columns adds the shares.
  release_block();
  u32* counter = a.arrived + block.batch * grid_size().x + block_index().x;
  if (thread_index() == 0) {
    arrived[0] = atomic_increment(counter);
    acquire_for_block();
  }
  barrier();
  if (arrived[0] + 1 < static_cast<u32>(block.shares)) return;
  acquire();
  if (thread_index() == 0) *counter = 0;  // for the next launch
  add_shares(a, block, partials);
}

}  // namespace gabbro::gpu::GABBRO_GPU

GPU_KERNEL(matmul_vec_along, 256, gabbro::gpu::MatmulVecArgs, matmul_vec_along)
GPU_KERNEL(matmul_vec_across, 256, gabbro::gpu::MatmulVecArgs, matmul_vec_across)
