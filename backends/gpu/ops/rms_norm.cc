// `rms_norm` over the last axis: of few rows in f32, as a token has them, by many blocks a row.
#include "kernels/rows/rms_norm.h"

#include "backends/common/request.h"
#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/layer_norm.h"

namespace gabbro::gpu {
namespace {

class RmsNorm : public Kernel {
 public:
  RmsNorm(const abi::KernelRequest& request, const abi::NormRequest& norm, const MakeContext& context)
      : function_(context.function("rms_norm")), epsilon_(norm.epsilon), rows_(norm.rows), columns_(norm.columns) {
    const abi::TensorView& x = request.inputs[0];
    implementation = "rms_norm";
    bytes = 8.0 * static_cast<double>(elements(x));
    flops = 4.0 * static_cast<double>(elements(x));
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    Dim grid = flat_blocks(rows_, api::block_threads(function_));
    grid.y = slices_of(rows_, columns_);
    run(function_, grid,
        RowsArgs{.x = input<float>(launch, 0),
                 .weight = input<float>(launch, 1),
                 .y = output<float>(launch, 0),
                 .rows = rows_,
                 .columns = static_cast<i32>(columns_),
                 .slice = slice_of(rows_, columns_),
                 .epsilon = epsilon_});
  }

 private:
  const api::Function* function_;
  float epsilon_;
  int64_t rows_, columns_;
};

}  // namespace

std::unique_ptr<Kernel> make_rms_norm(const abi::KernelRequest& request, const MakeContext& context) {
  abi::NormRequest norm;
  if (!read_rms_norm(request, norm)) return nullptr;
  if (norm.dtype == DType::f32 && norm.rows <= kFewRows) return std::make_unique<RmsNorm>(request, norm, context);
  return make_normalized_rows(request, norm, context);
}

}  // namespace gabbro::gpu
