// `softmax` and `log_softmax` over the last axis.
#include "kernels/rows/softmax.h"

#include <limits>
#include <string_view>

#include "backends/common/request.h"
#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/row_kernels.h"

namespace gabbro::gpu {
namespace {

class Softmax : public Kernel {
 public:
  Softmax(const abi::KernelRequest& request, const MakeContext& context) {
    const abi::TensorView& x = request.inputs[0];
    columns_ = x.shape[x.rank - 1];
    rows_ = elements(x) / columns_;
    logarithm_ = request.op == std::string_view("log_softmax");
    wave_ = context.wave();
    const std::string name = "softmax_" + std::string(dtype_name(x.dtype));
    function_ = context.function(name);
    in_registers_ = row_kernel(columns_, x.dtype, wave_, false);
    const char* suffix = "";
    if (in_registers_ != nullptr) {
      suffix = in_registers_->suffix;
    } else if (dtype_bytes(x.dtype, static_cast<size_t>(columns_)) % kVectorBytes == 0) {
      suffix = "_long";
    }
    vectors_ = context.function(name + suffix);
    implementation = request.op + ("_" + std::string(dtype_name(x.dtype))) + suffix;
    bytes = 2 * static_cast<double>(dtype_bytes(x.dtype, static_cast<size_t>(elements(x))));
    flops = 5.0 * static_cast<double>(elements(x));
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    const SoftmaxArgs args = {.x = input<void>(launch, 0),
                              .y = output<void>(launch, 0),
                              .rows = rows_,
                              .columns = static_cast<i32>(columns_),
                              .logarithm = logarithm_};
    const bool aligned = is_16_byte_aligned(args.x) && is_16_byte_aligned(args.y);
    if (aligned && in_registers_ != nullptr)
      return run(vectors_, row_grid(*in_registers_, rows_, vectors_, wave_), args);
    const api::Function* const function = aligned ? vectors_ : function_;
    run(function, flat_blocks(rows_, api::block_threads(function)), args);
  }

 private:
  const api::Function* function_;
  const api::Function* vectors_;  // for aligned rows of whole 16-byte vectors; function_ for other lengths
  const RowKernel* in_registers_;
  int64_t rows_ = 0, columns_ = 0;
  uint32_t wave_;
  bool logarithm_;
};

}  // namespace

std::unique_ptr<Kernel> make_softmax(const abi::KernelRequest& request, const MakeContext& context) {
  if (!has_operands(request, 1, 1)) return nullptr;
  const abi::TensorView &x = request.inputs[0], &y = request.outputs[0];
  if (x.dtype != DType::f32 && x.dtype != DType::f16 && x.dtype != DType::bf16) return nullptr;
  if (!is_plain(x, x.dtype) || x.rank < 1 || !is_contiguous(x) || x.shape[x.rank - 1] < 1) return nullptr;
  if (!same_shape(x, y) || !is_plain(y, x.dtype) || x.shape[x.rank - 1] > std::numeric_limits<i32>::max())
    return nullptr;
  return std::make_unique<Softmax>(request, context);
}

}  // namespace gabbro::gpu
