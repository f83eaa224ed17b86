// Weights of `linear` as the kernels take them.
#pragma once

#include "backends/common/request.h"
#include "backends/gpu/pack.h"
#include "kernels/linear/linear.h"
#include "src/base/round_up.h"

namespace gabbro::gpu {

// Whether there are kernels for a matrix of `columns` columns.
inline bool is_weight(const abi::TensorView& view, int64_t columns) {
  if (view.rank != 2 || view.shape[0] < 1 || view.shape[1] != columns) return false;
  if (is_quantized(view.dtype)) return view.layout == abi::Layout::kPacked;
  if (view.layout != abi::Layout::kStrided || view.strides[1] != 1) return false;
  return view.dtype == DType::f32 || view.dtype == DType::f16 || view.dtype == DType::bf16;
}

inline bool is_16_byte_aligned(const abi::TensorView& weight) {
  const int64_t step = weight.strides[0] * dtype_info(weight.dtype).block_bytes;
  return weight.strides[1] == 1 && step % 16 == 0 && weight.shape[1] * dtype_info(weight.dtype).block_bytes % 16 == 0;
}

// Whether the weights can be multiplied with f16 activations on matrix cores.
inline bool takes_f16(const abi::TensorView& weight) {
  return is_quantized(weight.dtype) || (weight.dtype != DType::f32 && is_16_byte_aligned(weight));
}

// Without bias and y.
inline LinearMatrix linear_matrix(const abi::TensorView& weight) {
  if (is_quantized(weight.dtype)) return packed_matrix(weight.dtype, weight.shape[0], weight.shape[1], weight.data);
  return {.low = static_cast<const u8*>(weight.data),
          .rows = static_cast<i32>(weight.shape[0]),
          .row_step = weight.strides[0] * dtype_info(weight.dtype).block_bytes};
}

// Columns in whole tiles: the pitch of f16 activations.
constexpr int64_t f16_depth(int64_t columns) { return round_up(columns, kTileDepth); }
inline const char* convert_rows_name(int64_t columns) {
  return columns <= 4 * kConvertedRowVectors * kLinearThreads ? "convert_rows_f16" : "convert_wide_rows_f16";
}

// Parts of a launch's scratch memory, one behind the other.
class ScratchLayout {
 public:
  // Offset of the part.
  int64_t place(int64_t bytes) {
    const int64_t at = bytes_;
    bytes_ += round_up(bytes, kAlignment);
    return at;
  }
  size_t bytes() const { return static_cast<size_t>(bytes_); }

 private:
  static constexpr int64_t kAlignment = 256;
  int64_t bytes_ = 0;
};

// Whether a vendor's library is asked first for a shape without a measurement.
inline bool asks_library(const abi::TensorView& weight, int64_t tokens, const Chip& chip) {
  return takes_f16(weight) && tokens > (weight.dtype == DType::f16 ? chip.small_batch_tokens : chip.converted_tokens);
}

}  // namespace gabbro::gpu
