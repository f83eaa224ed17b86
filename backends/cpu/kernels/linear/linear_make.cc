// Requests that `linear` and `linear_fused` accept.
#include "backends/common/request.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/linear/linear.h"

namespace gabbro::cpu::GABBRO_ISA {
bool is_linear_weight(const abi::TensorView& view, int64_t columns) {
  if (view.rank != 2 || view.shape[0] < 1 || view.shape[1] != columns || !is_weight_dtype(view.dtype)) return false;
  if (columns % dtype_info(view.dtype).block_elements != 0) return false;
  if (view.layout == abi::Layout::kPacked) return has_panels(view.dtype);
  return !is_quantized(view.dtype) || (has_panels(view.dtype) && view.strides[1] == 1 &&
                                       view.strides[0] % dtype_info(view.dtype).block_elements == 0);
}

KernelPointer make_linear(const abi::KernelRequest& request, const MakeContext& context) {
  const auto options = abi::read_linear_request(request, is_linear_weight);
  return options ? std::make_unique<Linear>(request, *options, context.workers) : nullptr;
}

}  // namespace gabbro::cpu::GABBRO_ISA
