// The operands of `sort` and `topk`, whatever the device.
#pragma once

#include "backends/common/request.h"

namespace gabbro::abi {

// x [rows, columns], contiguous, to the first `count` values of each row in order, and their places (i32).
struct SortRequest {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t count = 0;  // columns of `sort`, k of `topk`
  DType dtype = DType::f32;
  bool descending = false;
};

// False unless this is a request for x of floats, i32 or i64 with 0 < count <= columns.
bool read_sort_request(const KernelRequest& request, SortRequest& sort);

}  // namespace gabbro::abi
