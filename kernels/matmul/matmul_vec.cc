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

// The block has kColumns rows, four a lane, and a share of the depth, which its waves go over in turn.
GPU_FUNCTION inline void matmul_vec_across(const MatmulVecArgs& a) {
  constexpr int kColumns = 4 * static_cast<int>(kWave);
  GPU_SHARED(float, parts, kWaves* kMatmulVectors* kColumns);
  GPU_SHARED(u32, arrived, 1);
  const i64 batch = block_index().z, first = static_cast<i64>(block_index().x) * kColumns;
  const i32 share = static_cast<i32>(block_index().y), shares = static_cast<i32>(grid_size().y);
  i64 offsets[2];
  find_offsets<2>(a.batches, batch, offsets);
  const i64 column = first + lane() * 4, left = a.length - column;
  const float *matrix = a.matrix + offsets[0] + column, *vectors = a.vectors + offsets[1];
  const i64 each = (a.depth + shares - 1) / shares, end = min_of(a.depth, (share + 1) * each);
  float sums[kMatmulVectors][4] = {};
#pragma unroll 8
  for (i64 k = share * each + wave_index(); k < end; k += kWaves) {
    const Four own = load_four(matrix + k * a.matrix_step, left, a.aligned != 0);
#pragma unroll
    for (int v = 0; v < kMatmulVectors; ++v) {
      if (v >= a.count) break;
      const float x = vectors[v * a.vector_step + k * a.vector_depth_step];
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[v][i] = fma(own.value[i], x, sums[v][i]);
    }
  }
#pragma unroll
  for (int v = 0; v < kMatmulVectors; ++v) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      parts[(static_cast<int>(wave_index()) * kMatmulVectors + v) * kColumns + static_cast<int>(lane()) * 4 + i] =
          sums[v][i];
  }
  barrier();
  float* const partials = a.partials + batch * shares * a.count * a.length;
  const int thread = static_cast<int>(thread_index());
  const auto y_of = [&](int v, i64 i) { return a.y + batch * a.length * a.count + i * a.y_step + v * a.y_vector_step; };
  for (int i = thread; i < a.count * kColumns; i += kThreads) {
    const int v = i / kColumns, c = i % kColumns;
    if (first + c >= a.length) continue;
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWaves; ++w) sum += parts[(w * kMatmulVectors + v) * kColumns + c];
    if (shares == 1) {
      *y_of(v, first + c) = sum;
    } else {
      partials[(static_cast<i64>(share) * a.count + v) * a.length + first + c] = sum;
    }
  }
  if (shares == 1) return;
  // The last block of these rows to come here puts the shares together, in their order.
  release_block();
  u32* counter = a.arrived + batch * grid_size().x + block_index().x;
  if (thread == 0) {
    arrived[0] = atomic_increment(counter);
    acquire_for_block();
  }
  barrier();
  if (arrived[0] + 1 < static_cast<u32>(shares)) return;
  acquire();
  if (thread == 0) *counter = 0;  // for the next launch
  for (int i = thread; i < a.count * kColumns; i += kThreads) {
    const int v = i / kColumns, c = i % kColumns;
    if (first + c >= a.length) continue;
    float sum = 0;
#pragma unroll 8
    for (i32 s = 0; s < shares; ++s)
      sum += load_shared_result(partials + (static_cast<i64>(s) * a.count + v) * a.length + first + c);
    *y_of(v, first + c) = sum;
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU

GPU_KERNEL(matmul_vec_along, 256, gabbro::gpu::MatmulVecArgs, matmul_vec_along)
GPU_KERNEL(matmul_vec_across, 256, gabbro::gpu::MatmulVecArgs, matmul_vec_across)
