// Checks of the primitive ops' requests (docs/design/fused_ops.md) for any device: whether the operands follow the op's
// definition, and their strides.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "backends/common/request.h"

namespace gabbro::abi {

inline constexpr int kMaxStridedInputs = 8;

// Strided and broadcast inputs of one shape, in the order of a contiguous output: adjacent contiguous axes are merged,
// and axes of length 1 left out. Axis 0 is the fastest; there is at least one.
struct StridedAxes {
  int rank = 0;
  int64_t total = 1;  // elements
  std::array<int64_t, kMaxRank> shape{1, 1, 1, 1, 1, 1};
  std::array<std::array<int64_t, kMaxRank>, kMaxStridedInputs> strides{};
};
StridedAxes merge_axes(std::span<const TensorView> inputs);

// Whether it is a plain tensor with valid strides.
bool is_strided(const TensorView& view);

// Whether these are `inputs` strided tensors of one shape with a contiguous output of that shape.
bool is_elementwise(const KernelRequest& request, int inputs);

// A tensor seen as rows along its first axis, each contiguous.
struct RowsView {
  int64_t count = 0;
  int64_t step = 0;     // from row to row, in elements
  int64_t columns = 0;  // elements of a row
};
bool read_rows(const TensorView& view, RowsView& rows);

// The operands of `gather` and `scatter`, seen as rows.
struct RowMove {
  RowsView source;
  RowsView target;
};
bool is_gather(const KernelRequest& request, RowMove& move);
bool is_scatter(const KernelRequest& request, RowMove& move);

// iota of any plain dtype.
bool is_iota(const KernelRequest& request);

// `axis` is set to the axis along which the inputs follow each other.
bool is_concat(const KernelRequest& request, int& axis);
// How many elements follow each other from `axis` on.
int64_t elements_from(const TensorView& view, int axis);

// [..., C] of any plain dtype to [..., 1] of the same, of f32 for f16 and bf16, or of i32 if the result is an index.
bool is_reduction(const KernelRequest& request, bool index);

// Contiguous [..., C] of any plain type with C > 0 to the same; of i32 to i64.
bool is_scan(const KernelRequest& request);

// [..., M, K] × [..., K, N] of one plain type, strided, with broadcast batch axes.
bool is_matmul(const KernelRequest& request);
struct MatrixView {
  int64_t rows;
  int64_t columns;
  int64_t row_stride;
  int64_t column_stride;
};
MatrixView last_axes(const TensorView& view);
// Only the batch axes of a factor, broadcast to the axes of the product `like`.
TensorView batch_axes(const TensorView& view, const TensorView& like);

// The operands of `matmul_fused`, whose first factor is seen as one matrix; or of a `linear` of plain weights of x's
// dtype, which is one.
struct FusedMatmul {
  MatrixView a;            // [M, K]
  MatrixView b;            // [K, N], also if the attribute says that it is stored transposed
  bool bias = false;       // input 2: N elements of the product's dtype, contiguous
  int64_t activation = 0;  // docs/design/fused_ops.md
};
bool read_matmul_fused(const KernelRequest& request, FusedMatmul& matmul);

}  // namespace gabbro::abi
