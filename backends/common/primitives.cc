#include "backends/common/primitives.h"

#include <algorithm>
#include <limits>
#include <string_view>

namespace gabbro::abi {

bool is_strided(const TensorView& view) { return view.layout == Layout::kStrided && !is_quantized(view.dtype); }

StridedAxes merge_axes(std::span<const TensorView> inputs) {
  StridedAxes axes;
  const TensorView& first = inputs.front();
  for (int axis = first.rank - 1; axis >= 0; --axis) {
    const int64_t extent = first.shape[axis];
    axes.total *= extent;
    if (extent == 1) continue;
    const int last = axes.rank - 1;
    bool merge = last >= 0;
    for (size_t i = 0; i < inputs.size() && merge; ++i) {
      merge = inputs[i].strides[axis] == axes.strides[i][last] * axes.shape[last];
    }
    if (merge) {
      axes.shape[last] *= extent;
      continue;
    }
    for (size_t i = 0; i < inputs.size(); ++i) axes.strides[i][axes.rank] = inputs[i].strides[axis];
    axes.shape[axes.rank++] = extent;
  }
  axes.rank = std::max(axes.rank, 1);  // one element
  return axes;
}

bool is_elementwise(const KernelRequest& request, int inputs) {
  if (!has_operands(request, inputs, 1) || !is_contiguous(request.outputs[0])) return false;
  return std::all_of(request.inputs, request.inputs + inputs, [&](const TensorView& input) {
    return is_strided(input) && same_shape(input, request.outputs[0]);
  });
}

bool read_rows(const TensorView& view, RowsView& rows) {
  if (view.rank < 1 || !is_strided(view)) return false;
  TensorView row = view;
  row.rank -= 1;
  std::copy_n(view.shape + 1, row.rank, row.shape);
  std::copy_n(view.strides + 1, row.rank, row.strides);
  rows = {view.shape[0], view.strides[0], elements(row)};
  return is_contiguous(row);
}

bool is_gather(const KernelRequest& request, RowMove& move) {
  if (!has_operands(request, 2, 1) || !read_rows(request.inputs[0], move.source)) return false;
  const TensorView& y = request.outputs[0];
  if (!read_rows(y, move.target) || !is_contiguous(y) || y.dtype != request.inputs[0].dtype) return false;
  if (!has_shape(request.inputs[1], DType::i32, {move.target.count})) return false;
  return move.source.columns == move.target.columns && (move.source.count > 0 || move.target.count == 0);
}

bool is_scatter(const KernelRequest& request, RowMove& move) {
  if (!has_operands(request, 3, 1) || !has_aliases(request, 0, {0})) return false;
  if (!read_rows(request.inputs[0], move.target) || !read_rows(request.inputs[2], move.source)) return false;
  if (request.inputs[0].dtype != request.inputs[2].dtype || move.target.columns != move.source.columns) return false;
  return has_shape(request.inputs[1], DType::i32, {move.source.count});
}

bool is_iota(const KernelRequest& request) {
  if (!has_operands(request, 0, 1)) return false;
  const TensorView& y = request.outputs[0];
  return y.rank == 1 && is_contiguous(y) && is_strided(y);
}

bool is_concat(const KernelRequest& request, int& axis) {
  if (request.input_count < 1 || !has_operands(request, request.input_count, 1)) return false;
  const TensorView& y = request.outputs[0];
  const int64_t along = integer_attribute(request, "axis", 0);
  if (along < 0 || along >= y.rank || is_quantized(y.dtype) || !is_contiguous(y)) return false;
  int64_t extent = 0;
  for (int i = 0; i < request.input_count; ++i) {
    const TensorView& x = request.inputs[i];
    if (!is_plain(x, y.dtype) || x.rank != y.rank) return false;
    for (int a = 0; a < y.rank; ++a) {
      if (a != along && x.shape[a] != y.shape[a]) return false;
    }
    extent += x.shape[along];
  }
  axis = static_cast<int>(along);
  return extent == y.shape[along];
}

int64_t elements_from(const TensorView& view, int axis) {
  int64_t count = 1;
  for (int i = axis; i < view.rank; ++i) count *= view.shape[i];
  return count;
}

bool is_reduction(const KernelRequest& request, bool index) {
  if (!has_operands(request, 1, 1)) return false;
  const TensorView& x = request.inputs[0];
  const TensorView& y = request.outputs[0];
  if (x.rank < 1 || !is_strided(x)) return false;
  const bool half = x.dtype == DType::f16 || x.dtype == DType::bf16;
  const bool wide_sum = x.dtype == DType::i32 && std::string_view(request.op) == "sum";
  const DType result = index ? DType::i32 : half ? DType::f32 : wide_sum ? DType::i64 : x.dtype;
  if (!is_plain(y, result) || !is_contiguous(y)) return false;
  int64_t rows = 1;
  for (int i = 0; i + 1 < x.rank; ++i) rows *= x.shape[i];
  return elements(y) == rows && x.shape[x.rank - 1] <= std::numeric_limits<int32_t>::max();
}

bool is_scan(const KernelRequest& request) {
  if (!has_operands(request, 1, 1)) return false;
  const TensorView &x = request.inputs[0], &y = request.outputs[0];
  if (x.rank < 1 || !is_strided(x) || !is_contiguous(x)) return false;
  const DType sum = x.dtype == DType::i32 ? DType::i64 : x.dtype;
  return is_plain(y, sum) && is_contiguous(y) && same_shape(x, y) && elements(x) > 0;
}

bool is_matmul(const KernelRequest& request) {
  if (!has_operands(request, 2, 1)) return false;
  const TensorView &a = request.inputs[0], &b = request.inputs[1], &c = request.outputs[0];
  if (!is_strided(a) || !is_plain(b, a.dtype) || !is_plain(c, a.dtype)) return false;
  if (a.rank < 2 || b.rank < 2 || c.rank != std::max(a.rank, b.rank) || !is_contiguous(c)) return false;
  const MatrixView ma = last_axes(a), mb = last_axes(b), mc = last_axes(c);
  if (ma.columns != mb.rows || mc.rows != ma.rows || mc.columns != mb.columns) return false;
  for (const TensorView* view : {&a, &b}) {
    for (int i = 0; i + 2 < view->rank; ++i) {
      const int64_t extent = c.shape[i + c.rank - view->rank];
      if (view->shape[i] != extent && view->shape[i] != 1) return false;
    }
  }
  return true;
}

MatrixView last_axes(const TensorView& view) {
  const int r = view.rank;
  return {view.shape[r - 2], view.shape[r - 1], view.strides[r - 2], view.strides[r - 1]};
}

TensorView batch_axes(const TensorView& view, const TensorView& like) {
  TensorView batch = like;
  batch.rank = like.rank - 2;
  for (int i = 0; i < batch.rank; ++i) {
    const int axis = i + view.rank - like.rank;
    batch.strides[i] = axis < 0 || view.shape[axis] == 1 ? 0 : view.strides[axis];
  }
  return batch;
}

bool read_matmul_fused(const KernelRequest& request, FusedMatmul& matmul) {
  const bool linear = std::string_view(request.op) == "linear";
  matmul.bias = linear ? request.input_count == 3 : integer_attribute(request, "bias", 0) != 0;
  matmul.activation = integer_attribute(request, "activation", 0);
  if (!has_operands(request, matmul.bias ? 3 : 2, 1)) return false;
  const TensorView &a = request.inputs[0], &b = request.inputs[1], &y = request.outputs[0];
  if (!is_strided(a) || !is_plain(b, a.dtype) || !is_plain(y, a.dtype)) return false;
  if (a.rank < 1 || b.rank != 2 || y.rank < 1 || !is_contiguous(y)) return false;
  matmul.b = last_axes(b);
  if (linear || integer_attribute(request, "transposed", 0) != 0) {
    matmul.b = {matmul.b.columns, matmul.b.rows, matmul.b.column_stride, matmul.b.row_stride};
  }
  const int last = a.rank - 1;
  TensorView leading = a;
  leading.rank = last;
  const StridedAxes rows = merge_axes({&leading, 1});
  if (rows.rank > 1) return false;
  matmul.a = {rows.total, a.shape[last], rows.strides[0][0], a.strides[last]};
  const int64_t columns = matmul.b.columns;
  if (matmul.a.columns != matmul.b.rows || y.shape[y.rank - 1] != columns || elements(y) != rows.total * columns)
    return false;
  if (!matmul.bias) return true;
  const TensorView& bias = request.inputs[2];
  return is_plain(bias, a.dtype) && is_contiguous(bias) && elements(bias) == columns;
}

}  // namespace gabbro::abi
