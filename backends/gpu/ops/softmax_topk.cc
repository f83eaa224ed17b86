// `softmax_topk` (docs/design/fused_ops.md).
#include "kernels/rows/softmax_topk.h"

#include <string>

#include "backends/common/request.h"
#include "backends/gpu/kernel_table.h"

namespace gabbro::gpu {
namespace {

class SoftmaxTopk : public Kernel {
 public:
  SoftmaxTopk(const abi::KernelRequest& request, const SoftmaxTopkArgs& sizes, const MakeContext& context)
      : sizes_(sizes),
        wave_(context.wave()),
        function_(context.function(sizes.columns <= kFewHeld * static_cast<i32>(wave_) ? "softmax_topk_4"
                                                                                       : "softmax_topk_16")) {
    implementation = request.op;
    bytes = static_cast<double>(sizes.rows) * (static_cast<double>(sizes.columns) * 4 + sizes.count * 8.0);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    SoftmaxTopkArgs args = sizes_;
    args.x = input<float>(launch, 0);
    args.values = output<float>(launch, 0);
    args.indices = output<i32>(launch, 1);
    run(function_, {blocks_for(args.rows, kSoftmaxTopkThreads / wave_)}, args);
  }

 private:
  SoftmaxTopkArgs sizes_;
  u32 wave_;
  const api::Function* function_;
};

}  // namespace

std::unique_ptr<Kernel> make_softmax_topk(const abi::KernelRequest& request, const MakeContext& context) {
  if (!has_operands(request, 1, 2)) return nullptr;
  const abi::TensorView &x = request.inputs[0], &values = request.outputs[0], &indices = request.outputs[1];
  if (x.rank != 2 || x.shape[0] < 1) return nullptr;
  const int64_t rows = x.shape[0], columns = x.shape[1], count = integer_attribute(request, "k", 0);
  const auto wave = static_cast<int64_t>(context.wave());
  if (count < 1 || count > columns || count > wave || columns > kManyHeld * wave || rows > INT32_MAX) return nullptr;
  if (!has_shape(x, DType::f32, {rows, columns}) || !has_shape(values, DType::f32, {rows, count}) ||
      !has_shape(indices, DType::i32, {rows, count}))
    return nullptr;
  return std::make_unique<SoftmaxTopk>(request,
                                       SoftmaxTopkArgs{.rows = static_cast<i32>(rows),
                                                       .columns = static_cast<i32>(columns),
                                                       .count = static_cast<i32>(count),
                                                       .normalized = integer_attribute(request, "normalized", 0) != 0},
                                       context);
}

}  // namespace gabbro::gpu
