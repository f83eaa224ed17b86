// Gradient of max pooling, f32: each output's gradient goes to the element that its window chose. A worker takes whole
// planes, in which windows may overlap.
#include <algorithm>

#include "backends/common/window_request.h"
#include "backends/cpu/kernels/conv/max_pool_scan.h"
#include "backends/cpu/kernels/rows/rows.h"
#include "backends/cpu/kernels/tensor_kernels.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

class MaxPoolGradient : public Kernel {
 public:
  explicit MaxPoolGradient(const abi::PoolRequest& pool) : pool_(pool), largest_(pool.window) {
    implementation = "max_pool_gradient";
    bytes = 4.0 * static_cast<double>(pool.planes * (2 * pool.window.inputs() + pool.window.outputs()));
    flops = static_cast<double>(pool.planes * pool.window.outputs() * pool.window.taps());
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const float*>(launch.inputs[0].data);
    const auto* dy = static_cast<const float*>(launch.inputs[1].data);
    auto* dx = static_cast<float*>(launch.outputs[0].data);
    const int64_t inputs = pool_.window.inputs(), outputs = pool_.window.outputs();
    worker.parallel_for(pool_.planes, row_grain(inputs), [&](int64_t begin, int64_t end) {
      const float* from = dy + begin * outputs;
      float* to = dx + begin * inputs;
      std::fill_n(to, (end - begin) * inputs, 0.0f);
      largest_.for_each(x + begin * inputs, end - begin, [=](int64_t output, int64_t place) {
        if (place >= 0) to[place] += from[output];
      });
    });
  }

 private:
  abi::PoolRequest pool_;
  MaxPoolScan largest_;
};

}  // namespace

std::unique_ptr<Kernel> make_max_pool_gradient(const abi::KernelRequest& request, const MakeContext&) {
  abi::PoolRequest pool;
  if (!read_max_pool_gradient(request, pool) || pool.dtype != DType::f32) return nullptr;
  return std::make_unique<MaxPoolGradient>(pool);
}

}  // namespace gabbro::cpu::GABBRO_ISA
