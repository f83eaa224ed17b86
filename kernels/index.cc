// Rows by index. An index outside reads the nearest row.
#include "kernels/index.h"

#include "kernels/gpu/gpu.h"

namespace gabbro::gpu::GABBRO_GPU {

template <class T>
GPU_FUNCTION inline void gather(const GatherArgs& a) {
  const i64 at = global_index();
  if (at >= a.total) return;
  const i64 row = at / a.columns, column = at % a.columns;
  const i64 index = min_of<i64>(max_of<i64>(a.indices[row], 0), a.rows - 1);
  static_cast<T*>(a.y)[at] = static_cast<const T*>(a.x)[index * a.row_step + column];
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_INDEX(name, T) GPU_KERNEL(gather_##name, 256, gabbro::gpu::GatherArgs, gather<gabbro::gpu::T>)

GABBRO_INDEX(u8, u8)
GABBRO_INDEX(u16, u16)
GABBRO_INDEX(u32, u32)
GABBRO_INDEX(u64, u64)
