// f32 matrix product. A block makes a square tile of C out of panels of A and B in shared memory, and each thread
// `side` by `side` elements of it. Sums run over the depth in order.
#include "kernels/matmul/matmul.h"

#include "kernels/elementwise/strided_access.h"

namespace gabbro::gpu::GABBRO_GPU {

inline constexpr int kDepth = 16;  // of a panel

struct Panel {
  const float* from;  // its first element
  i64 stride;         // along the tile
  i64 depth_stride;
  i64 extent;  // what is left of the matrix, along the tile and along the depth
  i64 depth;
};

// Loads a panel into the block's memory as [kDepth][tile + 1], with zeros past the matrix's ends. Neighboring threads
// read along the contiguous axis.
template <int tile>
GPU_FUNCTION inline void load_panel(const Panel& p, float* panel) {
  constexpr int kThreads = kMatmulSide * kMatmulSide;
  const bool along_depth = p.depth_stride == 1;
#pragma unroll
  for (int i = 0; i < tile * kDepth / kThreads; ++i) {
    const int number = static_cast<int>(thread_index()) + i * kThreads;
    const int k = along_depth ? number % kDepth : number / tile, n = along_depth ? number / kDepth : number % tile;
    const bool inside = n < p.extent && k < p.depth;
    panel[k * (tile + 1) + n] = inside ? p.from[n * p.stride + k * p.depth_stride] : 0;
  }
}

template <int side>
GPU_FUNCTION inline void matmul(const MatmulArgs& a) {
  constexpr int kTile = kMatmulSide * side, kPitch = kTile + 1;
  GPU_SHARED(float, a_panel, kDepth* kPitch);
  GPU_SHARED(float, b_panel, kDepth* kPitch);
  const i64 block = block_index().x, tiles = a.row_tiles * a.column_tiles;
  const i64 batch = block / tiles, tile = block % tiles;
  const i64 row = tile / a.column_tiles * kTile, column = tile % a.column_tiles * kTile;
  i64 offsets[2];
  find_offsets<2>(a.batches, batch, offsets);
  const float *a_from = a.a + offsets[0] + row * a.a_row_stride,
              *b_from = a.b + offsets[1] + column * a.b_column_stride;
  const int x = static_cast<int>(thread_index()) % kMatmulSide, y = static_cast<int>(thread_index()) / kMatmulSide;
  float sums[side][side] = {};
  for (i64 depth = 0; depth < a.depth; depth += kDepth) {
    const i64 left = a.depth - depth;
    load_panel<kTile>({a_from + depth * a.a_column_stride, a.a_row_stride, a.a_column_stride, a.rows - row, left},
                      a_panel);
    load_panel<kTile>({b_from + depth * a.b_row_stride, a.b_column_stride, a.b_row_stride, a.columns - column, left},
                      b_panel);
    barrier();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      float a_values[side], b_values[side];
#pragma unroll
      for (int i = 0; i < side; ++i) {
        a_values[i] = a_panel[k * kPitch + y + i * kMatmulSide];
        b_values[i] = b_panel[k * kPitch + x + i * kMatmulSide];
      }
#pragma unroll
      for (int i = 0; i < side; ++i) {
#pragma unroll
        for (int j = 0; j < side; ++j) sums[i][j] = fma(a_values[i], b_values[j], sums[i][j]);
      }
    }
    barrier();
  }
#pragma unroll
  for (int i = 0; i < side; ++i) {
#pragma unroll
    for (int j = 0; j < side; ++j) {
      const i64 r = row + y + i * kMatmulSide, c = column + x + j * kMatmulSide;
      if (r < a.rows && c < a.columns) a.c[(batch * a.rows + r) * a.columns + c] = sums[i][j];
    }
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU

GPU_KERNEL(matmul_1, 256, gabbro::gpu::MatmulArgs, matmul<1>)
GPU_KERNEL(matmul_4, 256, gabbro::gpu::MatmulArgs, matmul<4>)
