// Reading an index in a kernel: negative ones count from the end, others out of range are reported once.
#pragma once

#include "kernels/gpu/gpu.h"
#include "kernels/index/index_check.h"

namespace gabbro::gpu::GABBRO_GPU {

// The first report of the device since the host read the last one; the host reads it where it waits for the device.
GPU_FUNCTION inline void report_index(const IndexCheck& check, i64 index) {
  if (atomic_increment(check.claimed) != 0) return;
  check.fault->index = index;
  check.fault->size = check.size;
  check.fault->site = check.site;
  fence_host();  // the host may read while other streams run
  check.fault->set = 1;
}

// The position that the index selects, without a report; -1 if there is none.
GPU_FUNCTION inline i64 position_of(const IndexCheck& check, i64 index) {
  if (index == check.ignored || index >= check.size || index < check.least) return -1;
  return index < 0 ? index + check.size : index;
}

// As above; reports an index that is out of range.
GPU_FUNCTION inline i64 checked_position(const IndexCheck& check, i64 index) {
  const i64 position = position_of(check, index);
  if (position < 0 && index != check.ignored) report_index(check, index);
  return position;
}

}  // namespace gabbro::gpu::GABBRO_GPU
