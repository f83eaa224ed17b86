// The operands of `take_along`, `scatter_add` and `index_add`, whatever the device. All are contiguous.
#pragma once

#include "backends/common/request.h"

namespace gabbro::abi {

// take_along: x [rows, columns], indices i32 [rows, picks] to [rows, picks] of x's dtype, any plain one.
// scatter_add: x [rows, columns], indices i32 [rows, picks], values [rows, picks] to x's shape; f32, f64, i32 or i64.
struct AlongRequest {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t picks = 0;
  DType dtype = DType::f32;
};
bool read_take_along(const KernelRequest& request, AlongRequest& along);
// scatter_set: the same, of any plain dtype.
bool read_scatter_set(const KernelRequest& request, AlongRequest& along);
bool read_scatter_add(const KernelRequest& request, AlongRequest& along);

// x [rows, columns...], indices i32 [picks], values [picks, columns...] to x's shape; f32, f64, i32 or i64.
bool read_index_add(const KernelRequest& request, AlongRequest& add);

}  // namespace gabbro::abi
