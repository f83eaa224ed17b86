// `sampling` (docs/design/fused_ops.md).
#include "kernels/sampling/sampling.h"

#include "backends/common/sampling_request.h"
#include "backends/gpu/kernel_table.h"

namespace gabbro::gpu {
namespace {

class Sampling : public Kernel {
 public:
  Sampling(const abi::SamplingRequest& sampling, const MakeContext& context)
      : sampling_(sampling), function_(context.function("sampling")) {
    static_assert(sizeof(RowSettings) == sizeof(abi::SamplingSettings) &&
                  sizeof(LogitEdit) == sizeof(abi::SamplingEdit));
    const auto logits = sizeof(float) * static_cast<size_t>(sampling.rows * sampling.columns);
    implementation = "sampling";
    bytes = static_cast<double>(logits);
    if (sampling.edits > 0) scratch_bytes = logits;
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    const bool edits = sampling_.edits > 0;
    run(function_, {static_cast<u32>(sampling_.rows)},
        SamplingArgs{.logits = input<float>(launch, 0),
                     .settings = input<RowSettings>(launch, 1),
                     .draws = input<u32>(launch, 2),
                     .edits = edits ? input<LogitEdit>(launch, 3) : nullptr,
                     .bias = edits ? input<float>(launch, 4) : nullptr,
                     .edited = static_cast<float*>(launch.scratch),
                     .tokens = output<i32>(launch, 0),
                     .measures = output<float>(launch, 1),
                     .columns = static_cast<i32>(sampling_.columns),
                     .edit_count = static_cast<i32>(sampling_.edits)});
  }

 private:
  abi::SamplingRequest sampling_;
  const api::Function* function_;
};

}  // namespace

std::unique_ptr<Kernel> make_sampling(const abi::KernelRequest& request, const MakeContext& context) {
  abi::SamplingRequest sampling;
  if (!read_sampling_request(request, sampling)) return nullptr;
  return std::make_unique<Sampling>(sampling, context);
}

}  // namespace gabbro::gpu
