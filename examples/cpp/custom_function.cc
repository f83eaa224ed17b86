// A function composed of ops has a gradient: SwiGLU, checked against differences of its values. custom_function
// [DEVICE]
#include <gabbro/ops.h>
#include <gabbro/optim.h>
#include <gabbro/tensor.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

using namespace gabbro;

namespace {

// x · silu(gate), elementwise, of one shape (Shazeer 2020).
Tensor swiglu(const Tensor& x, const Tensor& gate) { return x * gate * sigmoid(gate); }

// The slope of f at x along `direction`, from two values near x.
float difference(const Function& f, const Tensor& x, const Tensor& direction, float step) {
  const std::vector<Tensor> after{x + step * direction}, before{x - step * direction};
  return item<float>(f(after) - f(before)) / (2 * step);
}

int run(const char* device_name) {
  const DevicePointer device = open_device(device_name);
  const Tensor x = randn(random_key(device, 1), {5, 7});
  const Tensor gate = randn(random_key(device, 2), {5, 7});
  const Tensor direction = randn(random_key(device, 3), {5, 7});

  const Function f = [&](std::span<const Tensor> inputs) { return sum(swiglu(x, inputs[0]), kAllAxes); };
  const std::vector<Tensor> inputs{gate};
  const ValueAndGradients at = value_and_grad(f, inputs);
  const float slope = item<float>(sum(at.gradients[0] * direction, kAllAxes));
  const float expected = difference(f, gate, direction, 1e-2f);

  std::printf("value %.5f  slope by the gradient %.5f  by differences %.5f\n", item<float>(at.value), slope, expected);
  // The differences are wrong by O(step²) and by the rounding of f32 divided by the step.
  return std::fabs(slope - expected) <= 1e-2f * std::fmax(1.f, std::fabs(expected)) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "auto");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "custom_function: error: %s\n", error.what());
    return 1;
  }
}
