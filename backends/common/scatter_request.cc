#include "backends/common/scatter_request.h"

#include <algorithm>

namespace gabbro::abi {
namespace {

bool is_tensor(const TensorView& view, DType dtype) { return is_plain(view, dtype) && is_contiguous(view); }

bool is_summed(DType dtype) {
  return dtype == DType::f32 || dtype == DType::i32 || dtype == DType::f64 || dtype == DType::i64;
}

// Equal but for the last axis.
bool have_rows_alike(const TensorView& a, const TensorView& b) {
  return a.rank == b.rank && a.rank >= 1 && std::equal(a.shape, a.shape + a.rank - 1, b.shape);
}

bool read_rows(const TensorView& x, const TensorView& indices, AlongRequest& along) {
  if (!have_rows_alike(x, indices) || !is_tensor(x, x.dtype) || is_quantized(x.dtype)) return false;
  along = {.columns = x.shape[x.rank - 1], .picks = indices.shape[x.rank - 1], .dtype = x.dtype};
  along.rows = 1;
  for (int i = 0; i + 1 < x.rank; ++i) along.rows *= x.shape[i];
  return is_tensor(indices, DType::i32);
}

}  // namespace

bool read_take_along(const KernelRequest& request, AlongRequest& along) {
  if (!has_operands(request, 2, 1) || !read_rows(request.inputs[0], request.inputs[1], along)) return false;
  return is_tensor(request.outputs[0], along.dtype) && same_shape(request.outputs[0], request.inputs[1]) &&
         along.columns > 0;
}

bool read_scatter_set(const KernelRequest& request, AlongRequest& along) {
  if (!has_operands(request, 3, 1) || !read_rows(request.inputs[0], request.inputs[1], along)) return false;
  return is_tensor(request.inputs[2], along.dtype) && same_shape(request.inputs[2], request.inputs[1]) &&
         is_tensor(request.outputs[0], along.dtype) && same_shape(request.outputs[0], request.inputs[0]);
}

bool read_scatter_add(const KernelRequest& request, AlongRequest& along) {
  return read_scatter_set(request, along) && is_summed(along.dtype);
}

bool read_index_add(const KernelRequest& request, AlongRequest& add) {
  if (!has_operands(request, 3, 1)) return false;
  const TensorView &x = request.inputs[0], &values = request.inputs[2], &y = request.outputs[0];
  if (x.rank < 1 || values.rank != x.rank || !is_summed(x.dtype) || !is_tensor(x, x.dtype)) return false;
  if (!is_tensor(values, x.dtype) || !is_tensor(y, x.dtype) || !same_shape(x, y)) return false;
  if (!std::equal(x.shape + 1, x.shape + x.rank, values.shape + 1)) return false;
  add = {.rows = x.shape[0], .columns = 1, .picks = values.shape[0], .dtype = x.dtype};
  for (int i = 1; i < x.rank; ++i) add.columns *= x.shape[i];
  return has_shape(request.inputs[1], DType::i32, {add.picks});
}

}  // namespace gabbro::abi
