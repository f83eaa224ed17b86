// `rms_norm` over the last axis.
#include "kernels/norm.h"

#include "backends/common/request.h"
#include "backends/gpu/op_table.h"

namespace gabbro::gpu {
namespace {

class RmsNorm : public Kernel {
 public:
  RmsNorm(const abi::KernelRequest& request, const MakeContext& context)
      : function_(context.function("rms_norm")), epsilon_(static_cast<float>(real_attribute(request, "epsilon", 0))) {
    const abi::TensorView& x = request.inputs[0];
    columns_ = x.shape[x.rank - 1];
    rows_ = elements(x) / columns_;
    implementation = "rms_norm";
    bytes = 8.0 * static_cast<double>(elements(x));
    flops = 4.0 * static_cast<double>(elements(x));
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    run(function_, {static_cast<u32>(rows_), slices_of(rows_, columns_)},
        RowsArgs{.x = input<float>(launch, 0),
                 .weight = input<float>(launch, 1),
                 .y = output<float>(launch, 0),
                 .columns = static_cast<i32>(columns_),
                 .slice = slice_of(rows_, columns_),
                 .epsilon = epsilon_});
  }

 private:
  const api::Function* function_;
  float epsilon_;
  int64_t rows_ = 0, columns_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_rms_norm(const abi::KernelRequest& request, const MakeContext& context) {
  if (!has_operands(request, 2, 1)) return nullptr;
  const abi::TensorView& x = request.inputs[0];
  if (!is_plain(x, DType::f32) || x.rank < 1 || !is_contiguous(x) || x.shape[x.rank - 1] < 1) return nullptr;
  if (!same_shape(x, request.outputs[0]) || !is_plain(request.outputs[0], DType::f32)) return nullptr;
  if (!has_shape(request.inputs[1], DType::f32, {x.shape[x.rank - 1]})) return nullptr;
  return std::make_unique<RmsNorm>(request, context);
}

}  // namespace gabbro::gpu
