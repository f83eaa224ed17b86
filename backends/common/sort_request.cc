#include "backends/common/sort_request.h"

#include <algorithm>
#include <limits>

namespace gabbro::abi {

bool read_sort_request(const KernelRequest& request, SortRequest& sort) {
  if (!has_operands(request, 1, 2)) return false;
  const TensorView &x = request.inputs[0], &values = request.outputs[0], &indices = request.outputs[1];
  const DType dtype = x.dtype;
  if (!is_floating(dtype) && dtype != DType::i32 && dtype != DType::i64) return false;
  if (x.rank < 1 || !is_plain(x, dtype) || !is_contiguous(x) || !is_plain(values, dtype) || !is_contiguous(values))
    return false;
  if (!is_plain(indices, DType::i32) || !is_contiguous(indices) || !same_shape(values, indices)) return false;
  const int last = x.rank - 1;
  if (values.rank != x.rank || !std::equal(x.shape, x.shape + last, values.shape)) return false;
  sort = {.columns = x.shape[last],
          .count = values.shape[last],
          .dtype = dtype,
          .descending = integer_attribute(request, "descending", 0) != 0};
  if (sort.count < 1 || sort.count > sort.columns || sort.columns > std::numeric_limits<int32_t>::max()) return false;
  sort.rows = elements(x) / sort.columns;
  return true;
}

}  // namespace gabbro::abi
