// What x gets back through max pooling, f32: each output's gradient goes to the element that its window took. A worker
// takes whole planes, in which windows may overlap.
#include <algorithm>

#include "backends/common/window_request.h"
#include "backends/cpu/kernels/largest_seen.h"
#include "backends/cpu/kernels/rows.h"
#include "backends/cpu/kernels/tensor_kernels.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

class MaxPoolGradient : public Kernel {
 public:
  explicit MaxPoolGradient(const abi::PoolRequest& pool) : pool_(pool) {
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
      for (int64_t plane = begin; plane < end; ++plane) {
        std::fill_n(dx + plane * inputs, inputs, 0.0f);
        pass_back(x + plane * inputs, dy + plane * outputs, dx + plane * inputs);
      }
    });
  }

 private:
  void pass_back(const float* x, const float* dy, float* dx) const {
    const abi::Window& w = pool_.window;
    for (int64_t d = 0; d < w.out[0]; ++d) {
      const SeenTaps deep(w, 0, d);
      for (int64_t h = 0; h < w.out[1]; ++h, dy += w.out[2]) {
        const SeenTaps down(w, 1, h);
        for (int64_t o = 0; o < w.out[2]; ++o) {
          const int64_t place = place_of_largest(w, x, deep, down, o);
          if (place >= 0) dx[place] += dy[o];
        }
      }
    }
  }

  abi::PoolRequest pool_;
};

}  // namespace

std::unique_ptr<Kernel> make_max_pool_gradient(const abi::KernelRequest& request, const MakeContext&) {
  abi::PoolRequest pool;
  if (!read_max_pool_gradient(request, pool) || pool.dtype != DType::f32) return nullptr;
  return std::make_unique<MaxPoolGradient>(pool);
}

}  // namespace gabbro::cpu::GABBRO_ISA
