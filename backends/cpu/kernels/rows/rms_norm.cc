// RMSNorm (Zhang & Sennrich 2019): y = x / sqrt(mean(x²) + epsilon) · weight, over the last axis, accumulated in f32.
#include <cmath>

#include "backends/common/norm_request.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/rows/rows.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

// X is the element of x and y, W that of the weight.
template <class X, class W>
class RmsNorm : public Kernel {
 public:
  explicit RmsNorm(const abi::NormRequest& norm) : columns_(norm.columns), rows_(norm.rows), epsilon_(norm.epsilon) {
    implementation = "rms_norm " + std::string(dtype_name(norm.dtype));
    bytes = 2.0 * sizeof(X) * static_cast<double>(rows_ * columns_);
    flops = 4.0 * static_cast<double>(rows_ * columns_);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const X*>(launch.inputs[0].data);
    const auto* weight = static_cast<const W*>(launch.inputs[1].data);
    auto* y = static_cast<X*>(launch.outputs[0].data);
    worker.parallel_for(rows_, row_grain(columns_), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) norm(x + row * columns_, weight, y + row * columns_);
    });
  }

 private:
  void norm(const X* x, const W* weight, X* y) const {
    float sum = 0;
    for_sum_blocks(columns_, [&](int64_t begin, int64_t columns) {
      F32 sums[4] = {zero_f32(), zero_f32(), zero_f32(), zero_f32()};
      for_vectors(columns, [&](int64_t i, int count, int unrolled) {
        const F32 v = load_some(x + begin + i, count);
        sums[unrolled] = fma(v, v, sums[unrolled]);
      });
      sum += reduce_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
    });
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
  abi::NormRequest norm;
  if (!read_rms_norm(request, norm)) return nullptr;
  return with_element(norm.dtype, [&]<class X>() -> KernelPointer {
    if (norm.half_parameters) return std::make_unique<RmsNorm<X, X>>(norm);
    return std::make_unique<RmsNorm<X, float>>(norm);
  });
}

}  // namespace gabbro::cpu::GABBRO_ISA
