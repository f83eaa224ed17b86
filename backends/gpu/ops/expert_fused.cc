// `expert_gated` and `expert_sum` (docs/design/fused_ops.md): of few tokens with quantized weights in one launch;
// `expert_gated` of many tokens on matrix cores.
#include <string>

#include "backends/common/dequantized.h"
#include "backends/common/expert_request.h"
#include "backends/common/request.h"
#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/expert_batch.h"
#include "backends/gpu/ops/weights.h"
#include "kernels/linear/expert_linear.h"

namespace gabbro::gpu {
namespace {

class ExpertDecode : public Kernel {
 public:
  ExpertDecode(const abi::KernelRequest& request, const abi::ExpertRequest& sizes, const abi::ExpertForm& form,
               const MakeContext& context)
      : sizes_(sizes),
        form_(form),
        residual_(form.summed && form.more == 2),
        norm_(!form.summed && form.more == 1),
        epsilon_(static_cast<float>(real_attribute(request, "epsilon", 0))),
        check_(context.index_check(abi::read_index_rule(request, sizes.experts))) {
    const DType dtype = request.inputs[1].dtype;
    const std::string name = "expert_" + std::string(kernel_format(dtype)) + (form.summed ? "_sum" : "_gated");
    product_ = context.function(name);
    const int64_t waves = api::block_threads(product_) / context.wave();
    grid_ = {blocks_for(form.summed ? sizes.rows : waves_of(sizes.rows), waves),
             static_cast<u32>(form.summed ? sizes.tokens : sizes.slots())};
    implementation = std::string(request.op) + " " + name;
    const DTypeInfo info = dtype_info(dtype);
    const double rows = static_cast<double>(sizes.rows * form.matrices), depth = static_cast<double>(sizes.columns),
                 slots = static_cast<double>(sizes.slots());
    bytes = static_cast<double>(sizes.most_read()) * rows * depth * info.block_bytes / info.block_elements;
    flops = 2 * slots * rows * depth;
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    ExpertDecodeArgs args = {.rows = static_cast<i32>(sizes_.rows),
                             .columns = static_cast<i32>(sizes_.columns),
                             .used = static_cast<i32>(sizes_.used),
                             .ids = input<i32>(launch, form_.ids_at()),
                             .x = input<float>(launch, 0),
                             .y = output<float>(launch, 0),
                             .check = check_};
    for (int m = 0; m < form_.matrices; ++m)
      args.matrices[m] = linear_matrix(abi::stored_view(launch.inputs[1 + m], has_kernels));
    if (norm_) {
      args.norm = input<float>(launch, form_.ids_at() + 1);
      args.epsilon = epsilon_;
    }
    if (form_.summed) args.weights = input<float>(launch, form_.ids_at() + 1);
    if (residual_) args.residual = input<float>(launch, form_.ids_at() + 2);
    run(product_, grid_, args);
  }

 private:
  abi::ExpertRequest sizes_;
  abi::ExpertForm form_;
  bool residual_, norm_;
  float epsilon_;
  Dim grid_;
  IndexCheck check_;
  const api::Function* product_;
};

}  // namespace

std::unique_ptr<Kernel> make_expert_gated(const abi::KernelRequest& request, const MakeContext& context) {
  const abi::ExpertForm form = {.matrices = 2, .more = integer_attribute(request, "norm", 0) != 0 ? 1 : 0};
  const auto sizes = abi::read_expert_request(request, is_weight, form);
  if (!sizes) return nullptr;
  if (form.more == 1 && !has_shape(request.inputs[form.ids_at() + 1], DType::f32, {sizes->columns})) return nullptr;
  if (auto kernel = make_expert_batch(request, *sizes, form, context)) return kernel;
  const DType dtype = request.inputs[1].dtype;
  if (!is_quantized(dtype) || request.inputs[2].dtype != dtype || sizes->grouped() || sizes->own_rows) return nullptr;
  if (sizes->columns > kMaxOneColumns || sizes->slots() > kMostGridRows) return nullptr;
  return std::make_unique<ExpertDecode>(request, *sizes, form, context);
}

std::unique_ptr<Kernel> make_expert_sum(const abi::KernelRequest& request, const MakeContext& context) {
  const abi::ExpertForm form = {.more = request.input_count > 4 ? 2 : 1, .summed = true};
  const auto sizes = abi::read_expert_request(request, is_weight, form);
  if (!sizes || !is_quantized(request.inputs[1].dtype) || sizes->grouped() || !sizes->own_rows) return nullptr;
  const abi::TensorView& weights = request.inputs[form.ids_at() + 1];
  if (!has_shape(weights, DType::f32, {sizes->tokens, sizes->used, 1})) return nullptr;
  if (form.more == 2 && !has_shape(request.inputs[form.ids_at() + 2], DType::f32, {sizes->tokens, sizes->rows}))
    return nullptr;
  if (sizes->used > kMaxUsedExperts || sizes->used * sizes->columns > kMaxOneColumns || sizes->tokens > kMostGridRows)
    return nullptr;
  return std::make_unique<ExpertDecode>(request, *sizes, form, context);
}

}  // namespace gabbro::gpu
