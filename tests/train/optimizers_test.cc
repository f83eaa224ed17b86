// Optimizers against PyTorch's: a small network's parameters and loss after each of five steps
// (tests/data/nn/optimizers.json, made by tests/reference/make_nn_fixtures.py).
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "gabbro/nn/activation.h"
#include "gabbro/nn/linear.h"
#include "gabbro/nn/loss.h"
#include "gabbro/train/clipping.h"
#include "gabbro/train/optimizers.h"
#include "src/ops/grad.h"
#include "src/plan/eval.h"
#include "tests/nn/fixtures.h"

namespace gabbro::train {
namespace {

using nlohmann::json;
using nn::device;

struct Recipe {
  std::function<std::unique_ptr<Optimizer>(nn::Module& model)> make;
  double clip = 0;
};

template <class O, class Options>
Recipe recipe(const Options& options, double clip = 0) {
  return {[options](nn::Module& model) { return std::make_unique<O>(model, options); }, clip};
}

const std::map<std::string, Recipe>& recipes() {
  static const std::map<std::string, Recipe> all = {
      {"sgd", recipe<Sgd>(SgdOptions{.lr = 0.1})},
      {"sgd_clipped", recipe<Sgd>(SgdOptions{.lr = 0.1}, 0.3)},
      {"sgd_momentum", recipe<Sgd>(SgdOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.2, .weight_decay = 0.05})},
      {"sgd_nesterov", recipe<Sgd>(SgdOptions{.lr = 0.1, .momentum = 0.8, .nesterov = true})},
      {"adam", recipe<Adam>(AdamOptions{.lr = 0.02})},
      {"adam_decay",
       recipe<Adam>(AdamOptions{.lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.1})},
      {"adam_amsgrad", recipe<Adam>(AdamOptions{.lr = 0.1, .beta1 = 0.5, .beta2 = 0.6, .amsgrad = true})},
      {"adamw", recipe<AdamW>(AdamWOptions{.lr = 0.02})},
      {"lion", recipe<Lion>(LionOptions{.lr = 0.01, .weight_decay = 0.1})},
      {"adagrad", recipe<Adagrad>(AdagradOptions{
                      .lr = 0.1, .lr_decay = 0.1, .weight_decay = 0.01, .initial_accumulator_value = 0.1})},
      {"rmsprop", recipe<RmsProp>(RmsPropOptions{.lr = 0.01})},
      {"rmsprop_centered", recipe<RmsProp>(RmsPropOptions{
                               .lr = 0.01, .alpha = 0.9, .weight_decay = 0.01, .momentum = 0.5, .centered = true})}};
  return all;
}

std::shared_ptr<nn::Sequential> network(DType dtype = DType::f32) {
  const nn::Factory make{.device = device(), .dtype = dtype};
  const auto dense = [&](int64_t in, int64_t out) {
    return std::make_shared<nn::Linear>(make, nn::LinearOptions{.in_features = in, .out_features = out});
  };
  auto model = std::make_shared<nn::Sequential>(
      std::vector<std::shared_ptr<nn::Layer>>{dense(3, 8), std::make_shared<nn::Tanh>(), dense(8, 2)});
  nn::set_state(*model);
  return model;
}

const Tensor& examples() {
  static const Tensor x = nn::numbers(Shape{7, 3}, 100, 1.0 / 8);
  return x;
}
const Tensor& targets() {
  static const Tensor y = nn::numbers(Shape{7, 2}, 101, 1.0 / 8);
  return y;
}

const json& cases() {
  static const json all = nn::fixture("optimizers");
  return all;
}

class Optimizers : public testing::TestWithParam<size_t> {};

TEST_P(Optimizers, MakeTheStepsOfPyTorchEachInOnePlan) {
  const json& c = cases()[GetParam()];
  const Recipe& recipe = recipes().at(c.at("name"));
  const auto model = network();
  const std::unique_ptr<Optimizer> optimizer = recipe.make(*model);
  const size_t before = plans_made(*device());
  size_t step = 0;
  for (const json& expected : c.at("steps")) {
    const Tensor loss = mse_loss((*model)(examples()), targets());
    backward(loss);
    if (recipe.clip > 0) clip_gradient_norm(model->parameters(), recipe.clip);
    optimizer->step();
    evaluate(*model, *optimizer, {loss});
    optimizer->zero_grad();
    EXPECT_EQ(plans_made(*device()) - before, 1U) << "after step " << step;
    const std::vector<Tensor> parameters = model->tensors();
    for (size_t i = 0; i < parameters.size(); ++i)
      nn::expect_close(parameters[i], expected[i], "parameter " + std::to_string(i) + " after " + std::to_string(step));
    nn::expect_close(loss, expected.back(), "loss of step " + std::to_string(step));
    ++step;
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Optimizers, testing::Range(size_t{0}, cases().size()), [](const auto& tested) {
  return cases()[tested.param].at("name").template get<std::string>();
});

}  // namespace
}  // namespace gabbro::train
