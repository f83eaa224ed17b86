// Trains a perceptron with one hidden layer on the points of XOR: train [DEVICE]
#include <gabbro/nn.h>
#include <gabbro/optim.h>
#include <gabbro/tensor.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

using namespace gabbro;

namespace {

void run(const char* device_name) {
  const DevicePointer device = open_device(device_name);
  const Tensor x = tensor(device, {0.f, 0.f, 0.f, 1.f, 1.f, 0.f, 1.f, 1.f}, {4, 2});  // [N, 2]
  const Tensor target = tensor(device, {0.f, 1.f, 1.f, 0.f}, {4, 1});                 // [N, 1]

  const nn::Factory make{.device = device, .generator = std::make_shared<nn::Generator>(1)};
  const auto model = std::make_shared<nn::Sequential>(std::vector<std::shared_ptr<nn::Layer>>{
      std::make_shared<nn::Linear>(make, nn::LinearOptions{.in_features = 2, .out_features = 16}),
      std::make_shared<nn::Tanh>(),
      std::make_shared<nn::Linear>(make, nn::LinearOptions{.in_features = 16, .out_features = 1}),
  });
  train::Adam optimizer(*model, {.lr = 0.05});

  for (int step = 0; step <= 200; ++step) {
    const Tensor loss = mse_loss((*model)(x), target);
    backward(loss);
    optimizer.step();
    train::evaluate(*model, optimizer, {loss});  // loss, gradients and update as one plan
    optimizer.zero_grad();
    if (step % 50 == 0) std::printf("step %3d  loss %.6f\n", step, item<float>(loss));
  }
  for (const float y : to_host<float>((*model)(x))) std::printf("%.2f\n", y);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : "auto");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train: error: %s\n", error.what());
    return 1;
  }
}
