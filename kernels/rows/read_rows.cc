// Rows of weight matrices as f32: `embedding` and `dequantize`. A block of threads a part of a row.
#include "kernels/rows/read_rows.h"

#include "kernels/index/index_position.h"
#include "kernels/linear/codes.h"

namespace gabbro::gpu::GABBRO_GPU {

// An id that is out of range is reported, and reads row 0.
GPU_FUNCTION inline i64 source_row(const CheckedReadRowsArgs& a) {
  if (a.rows.ids == nullptr) return block_index().x;
  return max_of<i64>(checked_position(a.check, a.rows.ids[block_index().x]), 0);
}

template <Packing p>
GPU_FUNCTION inline void read_quantized_rows(const CheckedReadRowsArgs& args) {
  const ReadRowsArgs& a = args.rows;
  const i64 row = source_row(args);
  float* y = a.y + static_cast<i64>(block_index().x) * a.columns;
  const i32 blocks = a.columns / kBlock, b = static_cast<i32>(block_index().y * kReadThreads + thread_index());
  if (b >= blocks) return;
  const i64 block = row * blocks + b;
  const Codes codes = load_codes<p>(a.matrix, block);
  for (int i = 0; i < kBlock; ++i) {
    const i64 group = (block * kBlock + i) / p.group;
    float value = group_scale<p>(a.matrix, group) * level_of<p>(codes.word[i / 4], i % 4);
    if constexpr (p.minimum) value += group_minimum<p>(a.matrix, group);
    y[b * kBlock + i] = value;
  }
}

template <class T>
GPU_FUNCTION inline void read_plain_rows(const CheckedReadRowsArgs& args) {
  const ReadRowsArgs& a = args.rows;
  const T* from = reinterpret_cast<const T*>(a.matrix.low + source_row(args) * a.matrix.row_step);
  float* y = a.y + static_cast<i64>(block_index().x) * a.columns;
  const i32 first = static_cast<i32>(block_index().y) * read_columns(false) + static_cast<i32>(thread_index());
  float values[kReadElements];
#pragma unroll
  for (int i = 0; i < kReadElements; ++i) values[i] = to_float(from[min_of(first + i * kReadThreads, a.columns - 1)]);
#pragma unroll
  for (int i = 0; i < kReadElements; ++i) {
    const i32 k = first + i * kReadThreads;
    if (k < a.columns) y[k] = values[i];
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_READ(name)                                                                   \
  GPU_KERNEL(read_rows_##name, gabbro::gpu::kReadThreads, gabbro::gpu::CheckedReadRowsArgs, \
             read_quantized_rows<GABBRO_PACKING(name)>)

GPU_KERNEL(read_rows_f32, gabbro::gpu::kReadThreads, gabbro::gpu::CheckedReadRowsArgs, read_plain_rows<float>)
GPU_KERNEL(read_rows_f16, gabbro::gpu::kReadThreads, gabbro::gpu::CheckedReadRowsArgs,
           read_plain_rows<gabbro::gpu::Half>)
GPU_KERNEL(read_rows_bf16, gabbro::gpu::kReadThreads, gabbro::gpu::CheckedReadRowsArgs,
           read_plain_rows<gabbro::gpu::BFloat>)
GABBRO_FOR_EACH_FORMAT(GABBRO_READ)
