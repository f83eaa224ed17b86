#include "backends/common/dequantized.h"

#include <algorithm>
#include <span>

#include "src/formats/quant/quant.h"

namespace gabbro::abi {

void dequantize_rows(DType format, const void* blocks, int64_t columns, int64_t begin, int64_t end, void* target) {
  const size_t row_bytes = dtype_bytes(format, static_cast<size_t>(columns));
  std::vector<float> values(static_cast<size_t>(columns));
  for (int64_t row = begin; row < end; ++row) {
    const auto* source = static_cast<const std::byte*>(blocks) + static_cast<size_t>(row) * row_bytes;
    dequantize_row(format, source, values.data(), columns);
    quantize_row(DType::f16, values.data(), static_cast<std::byte*>(target) + dequantized_bytes(row, columns), columns);
  }
}

TensorView stored_view(const TensorView& view, HasKernels has_kernels) {
  if (view.layout != Layout::kPacked || view.rank != 2 || !is_quantized(view.dtype) || has_kernels(view.dtype))
    return view;
  TensorView stored = view;
  stored.dtype = DType::f16;
  stored.layout = Layout::kStrided;
  stored.strides[0] = view.shape[1];
  stored.strides[1] = 1;
  return stored;
}

StoredRequest::StoredRequest(const KernelRequest& request, HasKernels has_kernels) : request_(request) {
  const std::span inputs(request.inputs, static_cast<size_t>(std::max(request.input_count, 0)));
  if (std::ranges::none_of(inputs, [](const TensorView& view) { return view.layout == Layout::kPacked; })) return;
  for (const TensorView& view : inputs) inputs_.push_back(stored_view(view, has_kernels));
  request_.inputs = inputs_.data();
}

}  // namespace gabbro::abi
