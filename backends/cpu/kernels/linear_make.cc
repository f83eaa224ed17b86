// Which requests `linear` and `linear_fused` take.
#include "backends/common/request.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/linear.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

bool is_weight(const abi::TensorView& view, int64_t columns) {
  if (view.rank != 2 || view.shape[0] < 1 || view.shape[1] != columns || !is_packable(view.dtype)) return false;
  if (columns % dtype_info(view.dtype).block_elements != 0) return false;
  if (view.layout == abi::Layout::kPacked) return is_quantised(view.dtype);
  return !is_quantised(view.dtype) ||
         (view.strides[1] == 1 && view.strides[0] % dtype_info(view.dtype).block_elements == 0);
}

// A contiguous f32 tensor of `rows` rows, whatever its leading axes.
bool is_rows(const abi::TensorView& view, int64_t rows, int64_t columns) {
  return view.dtype == DType::f32 && is_contiguous(view) && view.rank >= 1 && view.shape[view.rank - 1] == columns &&
         elements(view) == rows * columns;
}

KernelPointer make(const abi::KernelRequest& request, const LinearOptions& options, const MakeContext& context) {
  const bool silu = options.epilogue == Epilogue::kSiluMul;
  const int n = options.count, biases = options.bias ? n : 0;
  const int residual = options.epilogue == Epilogue::kAdd ? 1 : 0;
  if (!has_operands(request, 1 + n + biases + (options.norm ? 1 : 0) + residual, silu ? 1 : n)) return nullptr;
  const abi::TensorView& x = request.inputs[0];
  if (x.rank < 1 || elements(x) < 1) return nullptr;
  const int64_t columns = x.shape[x.rank - 1], tokens = elements(x) / columns;
  if (!is_rows(x, tokens, columns)) return nullptr;
  for (int m = 0; m < n; ++m) {
    const abi::TensorView& weight = request.inputs[1 + m];
    if (!is_weight(weight, columns)) return nullptr;
    if (options.bias && !has_shape(request.inputs[1 + n + m], DType::f32, {weight.shape[0]})) return nullptr;
    if (silu && weight.shape[0] != request.inputs[1].shape[0]) return nullptr;
    if ((!silu || m == 0) && !is_rows(request.outputs[m], tokens, weight.shape[0])) return nullptr;
  }
  if (options.norm && !has_shape(request.inputs[1 + n + biases], DType::f32, {columns})) return nullptr;
  const int last = request.input_count - 1;
  if (residual != 0 && !is_rows(request.inputs[last], tokens, request.inputs[1].shape[0])) return nullptr;
  return std::make_unique<Linear>(request, options, context.workers);
}

}  // namespace

KernelPointer make_linear(const abi::KernelRequest& request, const MakeContext& context) {
  return make(request, {.bias = request.input_count == 3}, context);
}

KernelPointer make_linear_fused(const abi::KernelRequest& request, const MakeContext& context) {
  const int64_t count = integer_attribute(request, "n", 1), epilogue = integer_attribute(request, "epilogue", 0);
  if (count < 1 || count > 8 || epilogue < 0 || epilogue > 2) return nullptr;
  if ((epilogue == 1 && count != 1) || (epilogue == 2 && count != 2)) return nullptr;
  return make(request,
              {.count = static_cast<int>(count),
               .bias = integer_attribute(request, "bias", 0) != 0,
               .norm = integer_attribute(request, "norm", 0) != 0,
               .epsilon = static_cast<float>(real_attribute(request, "epsilon", 0)),
               .epilogue = static_cast<Epilogue>(epilogue)},
              context);
}

}  // namespace gabbro::cpu::GABBRO_ISA
