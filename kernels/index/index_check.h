// Arguments of kernels that read indices: the rule, and where they report an index that is out of range.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

// In host memory that the device writes. `set` is 0 until a kernel has reported an index.
struct IndexFault {
  i64 index;
  i64 size;
  u32 site;  // the call that gave the index (IndexSites of the host)
  u32 set;
};

// Valid indices are `least` to size - 1, and `ignored`, which selects nothing.
struct IndexCheck {
  i64 size;
  i64 least;
  i64 ignored;
  IndexFault* fault;
  u32* claimed;  // in the device's memory: how many indices were reported; the first one writes `fault`
  u32 site;
};

}  // namespace gabbro::gpu
