// Grids along x that HIP would refuse for their length: flat_grid() of the host lays them out in slices along z.
#pragma once

#include "kernels/gpu/gpu.h"

namespace gabbro::gpu::GABBRO_GPU {

// Index of the block, and of the thread, in a flat grid. The last ones may be past its end.
GPU_FUNCTION inline i64 flat_block() { return block_index().x + static_cast<i64>(block_index().z) * grid_size().x; }
GPU_FUNCTION inline i64 flat_index() { return flat_block() * block_size() + thread_index(); }

}  // namespace gabbro::gpu::GABBRO_GPU
