// `rms_norm` and `softmax` over the last axis.
#include <algorithm>

#include "backends/common/request.h"
#include "backends/gpu/op_table.h"
#include "kernels/norm.h"

namespace gabbro::gpu {
namespace {

class Rows : public Kernel {
 public:
  Rows(const abi::KernelRequest& request, float epsilon, const MakeContext& context)
      : function_(context.function(request.op)), epsilon_(epsilon), normalises_(request.input_count == 2) {
    const abi::TensorView& x = request.inputs[0];
    columns_ = x.shape[x.rank - 1];
    rows_ = elements(x) / columns_;
    implementation = request.op;
    bytes = 8.0 * static_cast<double>(elements(x));
    flops = 4.0 * static_cast<double>(elements(x));
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    run(function_, {static_cast<u32>(rows_), normalises_ ? slices_of(rows_, columns_) : 1},
        RowsArgs{.x = input<float>(launch, 0),
                 .weight = launch.input_count > 1 ? input<float>(launch, 1) : nullptr,
                 .y = output<float>(launch, 0),
                 .columns = static_cast<i32>(columns_),
                 .slice = slice_of(rows_, columns_),
                 .epsilon = epsilon_});
  }

 private:
  const api::Function* function_;
  float epsilon_;
  bool normalises_;  // else softmax, which a block does for a whole row
  int64_t rows_ = 0, columns_ = 0;
};

bool takes_rows(const abi::KernelRequest& request) {
  const abi::TensorView& x = request.inputs[0];
  return is_plain(x, DType::f32) && x.rank >= 1 && is_contiguous(x) && x.shape[x.rank - 1] > 0 &&
         same_shape(x, request.outputs[0]) && is_plain(request.outputs[0], DType::f32);
}

}  // namespace

std::unique_ptr<Kernel> make_rms_norm(const abi::KernelRequest& request, const MakeContext& context) {
  if (!has_operands(request, 2, 1) || !takes_rows(request)) return nullptr;
  const abi::TensorView& x = request.inputs[0];
  if (!has_shape(request.inputs[1], DType::f32, {x.shape[x.rank - 1]})) return nullptr;
  return std::make_unique<Rows>(request, static_cast<float>(real_attribute(request, "epsilon", 0)), context);
}

std::unique_ptr<Kernel> make_softmax(const abi::KernelRequest& request, const MakeContext& context) {
  if (!has_operands(request, 1, 1) || !takes_rows(request)) return nullptr;
  const int64_t last = request.inputs[0].rank - 1, axis = integer_attribute(request, "axis", last);
  if (axis != last && axis != -1) return nullptr;
  return std::make_unique<Rows>(request, 0.0f, context);
}

}  // namespace gabbro::gpu
