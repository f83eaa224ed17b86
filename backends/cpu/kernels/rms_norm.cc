// RMSNorm (Zhang & Sennrich 2019): y = x / sqrt(mean(x²) + epsilon) · weight, over the last axis, accumulated in f32.
#include <cmath>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/rows.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

class RmsNorm : public Kernel {
 public:
  RmsNorm(const abi::KernelRequest& request)
      : columns_(request.inputs[1].shape[0]),
        rows_(columns_ == 0 ? 0 : elements(request.inputs[0]) / columns_),
        epsilon_(static_cast<float>(real_attribute(request, "epsilon", 1e-5))) {
    implementation = "rms_norm";
    bytes = 8.0 * static_cast<double>(rows_ * columns_);
    flops = 4.0 * static_cast<double>(rows_ * columns_);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const float*>(launch.inputs[0].data);
    const auto* weight = static_cast<const float*>(launch.inputs[1].data);
    auto* y = static_cast<float*>(launch.outputs[0].data);
    worker.parallel_for(rows_, row_grain(columns_), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) norm(x + row * columns_, weight, y + row * columns_);
    });
  }

 private:
  void norm(const float* x, const float* weight, float* y) const {
    F32 sums[4] = {zero_f32(), zero_f32(), zero_f32(), zero_f32()};
    for_vectors(columns_, [&](int64_t i, int count, int unrolled) {
      const F32 v = load_some(x + i, count);
      sums[unrolled] = fma(v, v, sums[unrolled]);
    });
    const float sum = reduce_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
    const F32 scale = splat(1 / std::sqrt(sum / static_cast<float>(columns_) + epsilon_));
    for_vectors(columns_, [&](int64_t i, int count, int) {
      store_some(y + i, load_some(x + i, count) * scale * load_some(weight + i, count), count);
    });
  }

  int64_t columns_;
  int64_t rows_;
  float epsilon_;
};

}  // namespace

KernelPointer make_rms_norm(const abi::KernelRequest& request, const MakeContext&) {
  if (!has_operands(request, 2, 1)) return nullptr;
  const abi::TensorView& x = request.inputs[0];
  const abi::TensorView& weight = request.inputs[1];
  if (!is_plain(x, DType::f32) || x.rank < 1 || !is_contiguous(x)) return nullptr;
  if (!has_shape(weight, DType::f32, {x.shape[x.rank - 1]})) return nullptr;
  if (!same_shape(x, request.outputs[0]) || !is_plain(request.outputs[0], DType::f32)) return nullptr;
  return std::make_unique<RmsNorm>(request);
}

}  // namespace gabbro::cpu::GABBRO_ISA
