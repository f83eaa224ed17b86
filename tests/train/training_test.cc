// Whole training loops: schedules, clipping, mixed precision, loss scaling, state dicts of optimizers, and that all of
// it is planned once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "gabbro/graph/autocast.h"
#include "gabbro/nn/activation.h"
#include "gabbro/nn/dropout.h"
#include "gabbro/nn/linear.h"
#include "gabbro/nn/loss.h"
#include "gabbro/nn/norm.h"
#include "gabbro/ops/products.h"
#include "gabbro/train/clipping.h"
#include "gabbro/train/loss_scaler.h"
#include "gabbro/train/optimizers.h"
#include "gabbro/train/schedule.h"
#include "src/base/error.h"
#include "src/ops/grad.h"
#include "src/plan/eval.h"
#include "tests/nn/fixtures.h"

namespace gabbro::train {
namespace {

using nlohmann::json;
using nn::device;

std::vector<float> host(const Tensor& x) { return to_host<float>(cast(x, DType::f32)); }

template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

// A network with all modules that have state: batch norm and dropout.
std::shared_ptr<nn::Sequential> network(DType dtype = DType::f32) {
  const nn::Factory make{.device = device(), .dtype = dtype};
  const auto dense = [&](int64_t in, int64_t out) {
    return std::make_shared<nn::Linear>(make, nn::LinearOptions{.in_features = in, .out_features = out});
  };
  return std::make_shared<nn::Sequential>(std::vector<std::shared_ptr<nn::Layer>>{
      dense(3, 16), std::make_shared<nn::BatchNorm1d>(make, nn::BatchNormOptions{.num_features = 16}),
      std::make_shared<nn::Tanh>(), std::make_shared<nn::Dropout>(make, 0.1), dense(16, 1)});
}

Tensor examples() { return nn::numbers(Shape{29, 3}, 3, 1.0 / 14); }
Tensor targets(const Tensor& x) {
  const Tensor y = sum(x * x, -1, kKeepDims);
  eval(std::span(&y, 1));
  return y;
}

TEST(Schedules, AreThoseOfPyTorch) {
  const std::map<std::string, Schedule> schedules = {
      {"constant", constant(0.25, 3)},
      {"linear", linear(0.1, 0.8, 5)},
      {"step", step_decay(3, 0.5)},
      {"multi_step", multi_step({2, 7}, 0.3)},
      {"exponential", exponential(0.9)},
      {"polynomial", polynomial(8, 2)},
      {"cosine", cosine(10, 0.01)},
      {"cosine_restarts", cosine_restarts(3, 2, 0.02)},
      {"one_cycle", one_cycle({.max_rate = 2.5, .steps = 12})},
      {"sequential", sequential({linear(0.25, 1, 4), exponential(0.8)}, {4})}};
  size_t compared = 0;
  for (const json& c : nn::fixture("schedules")) {
    const std::string name = c.at("name");
    if (name == "plateau") continue;
    const std::vector<double> rates = c.at("rates");
    for (size_t step = 0; step < rates.size(); ++step) {
      EXPECT_NEAR(schedules.at(name)(0.5, static_cast<int64_t>(step)), rates[step], 1e-12) << name << " at " << step;
    }
    ++compared;
  }
  EXPECT_EQ(compared, schedules.size());
}

TEST(Schedules, OfAPlateauIsThatOfPyTorch) {
  const auto model = network();
  Sgd optimizer(*model, {.lr = 0.5});
  PlateauScheduler scheduler(optimizer, {.factor = 0.5, .patience = 1, .cooldown = 1, .least = 0.1});
  for (const json& c : nn::fixture("schedules")) {
    if (c.at("name") != "plateau") continue;
    for (size_t i = 0; i < c.at("losses").size(); ++i) {
      scheduler.step(c.at("losses")[i]);
      EXPECT_NEAR(optimizer.lr(), c.at("rates")[i].get<double>(), 1e-12) << i;
    }
  }
}

TEST(Training, LearnsAndPlansOnceUnderASchedule) {
  const auto model = network();
  std::vector<ParameterGroup> groups(2);
  for (const nn::Slot& slot : model->parameters())
    groups[slot.name.ends_with("weight") ? 0 : 1].parameters.push_back(slot);
  groups[1].weight_decay = 0;
  AdamW optimizer(groups, {.lr = 0.05});
  Scheduler scheduler(optimizer, sequential({linear(0.1, 1, 5), cosine(100)}, {5}));
  const Tensor x = examples(), y = targets(x);
  float first = 0, last = 0;
  size_t plans = 0;
  for (int step = 0; step < 100; ++step) {
    const Tensor loss = mse_loss((*model)(x), y);
    backward(loss);
    const Tensor norm = clip_gradient_norm(model->parameters(), 1.0);
    optimizer.step();
    scheduler.step();
    evaluate(*model, optimizer, {loss, norm});
    optimizer.zero_grad();
    last = host(loss)[0];
    if (step == 0) {
      first = last;
      plans = plans_made(*device());
    }
  }
  EXPECT_EQ(plans_made(*device()), plans);
  EXPECT_LT(last, 0.1F * first);
  model->train(false);
  EXPECT_LT(host(mse_loss((*model)(x), y))[0], 0.1F * first);
}

TEST(Training, LeavesNothingOfThePastBehind) {
  const auto model = network();
  Adam optimizer(*model);
  const Tensor x = examples(), y = targets(x);
  std::vector<std::weak_ptr<TensorState>> past;
  for (int step = 0; step < 2; ++step) {
    const Tensor loss = mse_loss((*model)(x), y);
    backward(loss);
    for (const Tensor& tensor : model->tensors()) past.emplace_back(tensor.shared_state());
    for (const nn::Slot& slot : model->parameters()) past.emplace_back(gradient_of(*slot.tensor).shared_state());
    optimizer.step();
    evaluate(*model, optimizer, {loss});
    optimizer.zero_grad();
  }
  for (size_t i = 0; i < past.size() / 2; ++i) EXPECT_TRUE(past[i].expired()) << i;
}

TEST(Training, LearnsInHalfPrecisionAndUnderAutocastWithAScaledLoss) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const auto model = network();
    Adam optimizer(*model, {.lr = 0.05});
    LossScaler scaler(device(), {.scale = 0x1p40, .growth_interval = 20});  // overflows at first
    const Tensor x = examples(), y = targets(x);
    float first = 0, last = 0;
    size_t plans = 0;
    const std::vector<float> before = host(model->tensors()[0]);
    for (int step = 0; step < 80; ++step) {
      Tensor loss;
      {
        const Autocast autocast(dtype);
        loss = mse_loss((*model)(x), y);
      }
      EXPECT_EQ(loss.dtype(), DType::f32);
      backward(scaler.scaled(loss));
      scaler.unscale(optimizer);
      scaler.step(optimizer);
      scaler.update();
      std::vector<Tensor> more = scaler.tensors();
      more.push_back(loss);
      evaluate(*model, optimizer, more);
      optimizer.zero_grad();
      last = host(loss)[0];
      if (step == 0) {
        first = last;
        plans = plans_made(*device());
        if (dtype == DType::f16) {
          EXPECT_EQ(host(model->tensors()[0]), before);  // the step was left out
          EXPECT_EQ(host(scaler.scale())[0], 0x1p39F);
        }
      }
    }
    EXPECT_EQ(plans_made(*device()), plans);
    EXPECT_LT(last, 0.2F * first) << dtype_name(dtype);
    EXPECT_GT(host(scaler.scale())[0], 1);
    EXPECT_EQ(model->tensors()[0].dtype(), DType::f32);
  }
}

TEST(Autocast, ComputesProductsInItsDTypeAndSumsInF32) {
  const Tensor a = nn::numbers(Shape{4, 8}, 1, 1.0 / 8), b = nn::numbers(Shape{8, 4}, 2, 1.0 / 8);
  const Tensor image = nn::numbers(Shape{1, 2, 4}, 1, 1.0 / 8), kernel = nn::numbers(Shape{3, 2, 2}, 1, 1.0 / 8);
  const Autocast autocast(DType::bf16);
  EXPECT_EQ(matmul(a, b).dtype(), DType::bf16);
  EXPECT_EQ(linear(a, permute(b, {1, 0})).dtype(), DType::bf16);
  EXPECT_EQ(conv1d(image, kernel, nn::numbers(Shape{3}, 1, 1)).dtype(), DType::bf16);
  EXPECT_EQ(einsum("ij,jk->ik", {a, b}).dtype(), DType::bf16);
  EXPECT_EQ(softmax(matmul(a, b)).dtype(), DType::f32);
  EXPECT_EQ(sum(matmul(a, b), kAllAxes).dtype(), DType::f32);
  EXPECT_EQ(exp(matmul(a, b)).dtype(), DType::f32);
  EXPECT_EQ(layer_norm(matmul(a, b), {}, {}, 1e-5F).dtype(), DType::f32);
  EXPECT_EQ(relu(matmul(a, b)).dtype(), DType::bf16);
  const std::vector<float> product = host(matmul(a, b));
  const NoAutocast off;
  EXPECT_EQ(matmul(a, b).dtype(), DType::f32);
  const std::vector<float> exact = host(matmul(a, b));
  for (size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(product[i], exact[i], 0x1p-8 * std::fabs(exact[i]) + 1e-6);
}

TEST(Autocast, GradientsHaveTheDTypeOfTheirTensorsAlsoWhereItIsOn) {
  const auto model = network();
  const Tensor x = examples();
  const Autocast autocast(DType::f16);
  const std::vector<Tensor> inputs{x};
  require_gradient(x);
  const Functions f = [&](std::span<const Tensor> in) { return std::vector{(*model)(in[0])}; };
  backward(sum(checkpoint(f, inputs)[0], kAllAxes));  // within: what was decided stays
  evaluate(*model, Sgd(*model), {gradient_of(x)});
  for (const nn::Slot& slot : model->parameters()) EXPECT_EQ(gradient_of(*slot.tensor).dtype(), DType::f32);
  EXPECT_THAT(error_of([] { Autocast(DType::f32); }), testing::HasSubstr("only in f16 and bf16"));
}

TEST(Clipping, ChangesNothingWithinTheBounds) {
  const auto model = network();
  backward(sum((*model)(examples()), kAllAxes));
  std::vector<Tensor> before, after;
  for (const nn::Slot& slot : model->parameters()) before.push_back(gradient_of(*slot.tensor));
  const Tensor norm = clip_gradient_norm(model->parameters(), 1e9);
  const Tensor largest = clip_gradient_norm(model->parameters(), 1e9, HUGE_VAL);
  for (const nn::Slot& slot : model->parameters()) after.push_back(gradient_of(*slot.tensor));
  double squares = 0, most = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(host(before[i]), host(after[i]));
    for (const double value : host(before[i])) squares += value * value, most = std::max(most, std::fabs(value));
  }
  EXPECT_NEAR(host(norm)[0], std::sqrt(squares), 64 * 0x1p-24 * std::sqrt(squares));
  EXPECT_EQ(host(largest)[0], static_cast<float>(most));
  clip_gradient_value(model->parameters(), 0.01);
  for (const nn::Slot& slot : model->parameters())
    for (const float value : host(gradient_of(*slot.tensor))) EXPECT_LE(std::fabs(value), 0.01F);
  model->zero_grad();
  EXPECT_EQ(host(clip_gradient_norm(model->parameters(), 1))[0], 0);  // as PyTorch
  EXPECT_EQ(error_of([&] { clip_gradient_norm({}, 1); }), "[clip_gradient_norm] there are no parameters");
}

TEST(Optimizers, GoOnFromTheirStateDicts) {
  const Tensor x = examples(), y = targets(x);
  const auto step = [&](nn::Module& model, Adam& optimizer, nn::Sequential& net) {
    backward(mse_loss(net(x), y));
    optimizer.step();
    evaluate(model, optimizer);
    optimizer.zero_grad();
  };
  const auto a = network(), b = network();
  for (const auto& model : {a, b}) model->train(false);
  Adam of_a(*a), of_b(*b);
  for (int i = 0; i < 3; ++i) step(*a, of_a, *a);
  b->load_state_dict(a->state_dict());
  of_b.load_state_dict(of_a.state_dict());
  step(*a, of_a, *a);
  step(*b, of_b, *b);
  for (size_t i = 0; i < a->tensors().size(); ++i) EXPECT_EQ(host(a->tensors()[i]), host(b->tensors()[i])) << i;
  nn::StateDict state = of_a.state_dict();
  EXPECT_EQ(state[1].name, "0.weight.exp_avg");
  state.pop_back();
  EXPECT_EQ(error_of([&] { of_b.load_state_dict(state); }), "[optimizer] the state 4.bias.exp_avg_sq is missing");
  state = of_a.state_dict();
  state.push_back({"5.bias.step", state[0].tensor});
  EXPECT_EQ(error_of([&] { of_b.load_state_dict(state); }),
            "[optimizer] the state 5.bias.step belongs to no parameter");
}

TEST(Optimizers, LeaveParametersWithoutGradientsAndRefuseWhatIsWrong) {
  const auto model = network();
  const std::vector<float> before = host(model->tensors()[0]);
  Sgd optimizer(*model, {.lr = 1, .momentum = 0.5});
  optimizer.step();
  EXPECT_EQ(host(model->tensors()[0]), before);
  std::vector<nn::Slot> twice = model->parameters();
  twice.push_back(twice.front());
  EXPECT_EQ(error_of([&] { Sgd(std::vector<ParameterGroup>{{.parameters = twice}}); }),
            "[optimizer] 0.weight is there twice");
  EXPECT_EQ(error_of([&] { Sgd(std::vector<ParameterGroup>{}); }), "[optimizer] there are no parameters");
  EXPECT_EQ(error_of([&] { Sgd(*model, {.nesterov = true}); }),
            "[sgd] Nesterov's momentum needs a momentum and no dampening");
  EXPECT_EQ(error_of([&] { Adam(*model, {.beta1 = 1}); }), "[adam] beta1 1 is not in [0, 1)");
}

TEST(Optimizers, LeaveGradientsUntilTheyAreCleared) {
  const auto layer = std::make_shared<nn::Linear>(nn::Factory{.device = device()}, nn::LinearOptions{1, 1, false});
  layer->weight = device()->upload(DType::f32, Shape{1, 1}, std::vector<float>{1}.data());
  require_gradient(layer->weight);
  Sgd first(*layer, {.lr = 0.25}), second(*layer, {.lr = 0.5});
  backward(sum(layer->weight * 2, kAllAxes));
  first.step();
  second.step();
  evaluate(*layer, first);
  EXPECT_EQ(host(layer->weight)[0], 1 - 0.25F * 2 - 0.5F * 2);
  EXPECT_EQ(host(gradient_of(layer->weight))[0], 2);
  backward(sum(layer->weight * 3, kAllAxes));
  EXPECT_EQ(host(gradient_of(layer->weight))[0], 5);
  first.zero_grad(false);
  EXPECT_EQ(host(gradient_of(layer->weight))[0], 0);
  first.zero_grad();
  EXPECT_FALSE(gradient_of(layer->weight).defined());
}

// A momentum that is set later begins with the gradient of its first step, which no dampening makes smaller.
TEST(Optimizers, FollowOptionsThatAreSetLater) {
  const auto layer = std::make_shared<nn::Linear>(nn::Factory{.device = device()}, nn::LinearOptions{1, 1, false});
  layer->weight = device()->upload(DType::f32, Shape{1, 1}, std::vector<float>{8}.data());
  require_gradient(layer->weight);
  Sgd optimizer(*layer, {.lr = 1});
  const auto step = [&] {
    backward(sum(layer->weight, kAllAxes));
    optimizer.step();
    evaluate(*layer, optimizer);
    optimizer.zero_grad();
    return host(layer->weight)[0];
  };
  EXPECT_EQ(step(), 7);
  optimizer.set_options({.lr = 1, .momentum = 0.5, .dampening = 0.5}, 0);
  EXPECT_EQ(step(), 6);  // b = 1
  EXPECT_EQ(step(), 5);  // b = 0.5 + 0.5
  optimizer.set_lr(0.5);
  EXPECT_EQ(optimizer.options().lr, 0.5);
  EXPECT_EQ(optimizer.options().momentum, 0.5);
  EXPECT_EQ(step(), 4.5F);
  EXPECT_EQ(error_of([&] { optimizer.set_options({.momentum = -1}, 0); }),
            "[sgd] momentum -1 is not a finite number of at least 0");
  EXPECT_EQ(optimizer.options().momentum, 0.5);
}

TEST(Optimizers, TrainHalfPrecisionInF32) {
  const auto model = network(DType::f16);
  Adam optimizer(*model, {.lr = 0.05});
  const Tensor x = cast(examples(), DType::f16), y = cast(targets(examples()), DType::f16);
  float first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    const Tensor loss = mse_loss((*model)(x), y);
    backward(loss);
    optimizer.step();
    evaluate(*model, optimizer, {loss});
    optimizer.zero_grad();
    last = host(loss)[0];
    if (step == 0) first = last;
  }
  EXPECT_LT(last, 0.3F * first);
  EXPECT_EQ(model->tensors()[0].dtype(), DType::f16);
  EXPECT_EQ(optimizer.state_dict()[1].tensor.dtype(), DType::f32);
}

}  // namespace
}  // namespace gabbro::train
