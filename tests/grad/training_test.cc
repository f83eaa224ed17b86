// Gradients of whole functions: of higher order, through checkpoints, in parts, and in a loop that learns.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "src/ops/cases/cases.h"
#include "src/ops/grad.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"
#include "tests/rounding.h"

namespace gabbro::grad {
namespace {

using cases::device, cases::ints;

Tensor total(const Tensor& x) { return sum(x, kAllAxes); }

// Numbers in (-1, 1) that look random.
Tensor numbers(const Shape& shape, int seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < shape.elements(); ++i)
    values.push_back(static_cast<float>(std::sin(static_cast<double>(i * 12 + seed) * 1.618)));
  return device()->upload(DType::f32, shape, values.data());
}

Tensor parameter(const Shape& shape, int seed) {
  const Tensor x = numbers(shape, seed);
  require_gradient(x);
  return x;
}

std::vector<float> host(const Tensor& x) { return to_host<float>(x); }

void expect_near(const Tensor& actual, const Tensor& expected, double tolerance) {
  const std::vector<float> a = host(actual), e = host(expected);
  ASSERT_EQ(a.size(), e.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], e[i], tolerance) << "at " << i;
}

// Results of up to 6, with as many roundings.
constexpr double kFewRoundings = 6 * test::rounding_bound(6);

TEST(HigherOrder, DerivativesOfACubeAreThose) {
  const Tensor x = numbers(Shape{5}, 1);
  const auto cube = [](std::span<const Tensor> in) { return total(in[0] * in[0] * in[0]); };
  const auto slope = [&](std::span<const Tensor> in) { return total(value_and_grad(cube, in).gradients[0]); };
  const auto bend = [&](std::span<const Tensor> in) { return total(value_and_grad(slope, in).gradients[0]); };
  const Tensor one[] = {x};
  const Tensor three = scalar(device(), 3), six = scalar(device(), 6);
  expect_near(value_and_grad(cube, one).gradients[0], three * x * x, kFewRoundings);
  expect_near(value_and_grad(slope, one).gradients[0], six * x, kFewRoundings);
  expect_near(value_and_grad(bend, one).gradients[0], broadcast_to(six, x.shape()), kFewRoundings);
}

TEST(HigherOrder, AFunctionThatCapturesAnOuterInputIsDifferentiatedByIt) {
  const Tensor a[] = {numbers(Shape{4}, 1)}, b[] = {numbers(Shape{4}, 2)};
  const auto outer = [&](std::span<const Tensor> in) {  // d/db (a² · b) = a², whose sum has the gradient 2a
    const Tensor captured = in[0];
    const auto inner = [&](std::span<const Tensor> deep) { return total(captured * captured * deep[0]); };
    return total(value_and_grad(inner, b).gradients[0]);
  };
  expect_near(value_and_grad(outer, a).gradients[0], a[0] + a[0], kFewRoundings);
}

// A network with normalization, attention by hand and a loss, of weights [8, 8].
Tensor network(const Tensor& x, const std::vector<Tensor>& w) {
  const Tensor h = layer_norm(x, {}, {}, 1e-5f);
  const Tensor q = linear(h, w[0]), k = linear(h, w[1]), v = linear(h, w[2]);
  const Tensor mixed = x + linear(matmul(softmax(matmul(q, permute(k, {1, 0}))), v), w[3]);
  return mixed + linear(gelu(linear(rms_norm(mixed, broadcast_to(scalar(device(), 1), Shape{8}), 1e-5f), w[4])), w[5]);
}

std::vector<Tensor> network_weights() {
  std::vector<Tensor> weights;
  for (int i = 0; i < 6; ++i) weights.push_back(parameter(Shape{8, 8}, i));
  return weights;
}

// The second derivative along a direction is the difference of first ones.
TEST(HigherOrder, ProductsOfTheHessianAreDifferencesOfGradients) {
  const std::vector<Tensor> weights = network_weights();
  const Tensor direction = numbers(Shape{5, 8}, 9);
  const auto slope_at = [&](const Tensor& x) {
    return gradients(total(tanh(network(x, weights))), std::span(&x, 1))[0];
  };
  const Tensor x = parameter(Shape{5, 8}, 7);
  const Tensor slope = gradients(total(tanh(network(x, weights))), std::span(&x, 1), {.differentiable = true})[0];
  const Tensor product = gradients(total(slope * direction), std::span(&x, 1))[0];
  const auto moved = [&](double h) {
    const Tensor y = detach(x + direction * scalar(device(), h));
    require_gradient(y);
    return slope_at(y);
  };
  constexpr double kH = 0x1p-7;
  const auto difference = [&](double h) { return (moved(h) - moved(-h)) * scalar(device(), 0.5 / h); };
  const Tensor extrapolated = (difference(kH) * scalar(device(), 4) - difference(2 * kH)) * scalar(device(), 1.0 / 3);
  double largest = 0;
  for (const float value : host(product)) largest = std::max(largest, std::fabs(static_cast<double>(value)));
  EXPECT_GT(largest, 0.1);
  // First derivatives are off by some 64 units of 2^-24 of numbers up to 10, which the difference divides by h.
  expect_near(product, extrapolated, 64 * 10 * 0x1p-24 / kH);
}

class Checkpoints : public testing::Test {
 protected:
  std::vector<Tensor> weights = network_weights();
  Tensor x = parameter(Shape{5, 8}, 7);
  Functions layer = [this](std::span<const Tensor> in) { return std::vector{tanh(network(in[0], weights))}; };

  std::vector<Tensor> wanted() const {
    std::vector<Tensor> inputs = weights;
    inputs.push_back(x);
    return inputs;
  }
};

TEST_F(Checkpoints, GiveTheSameGradientsAlsoOfWhatTheFunctionCaptures) {
  const Tensor stored[] = {layer(layer(std::span(&x, 1)))[0]};
  const Tensor recomputed[] = {checkpoint(layer, checkpoint(layer, std::span(&x, 1)))[0]};
  EXPECT_EQ(host(stored[0]), host(recomputed[0]));
  const std::vector<Tensor> expected = gradients(total(stored[0]), wanted());
  const std::vector<Tensor> actual = gradients(total(recomputed[0]), wanted());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(host(actual[i]), host(expected[i])) << "input " << i;
}

TEST_F(Checkpoints, MayBeInsideOfEachOtherAndUsedByBackward) {
  const Functions pair = [this](std::span<const Tensor> in) { return checkpoint(layer, checkpoint(layer, in)); };
  backward(total(pair(std::span(&x, 1))[0]));
  const std::vector<float> inner = host(gradient_of(x));
  clear_gradient(x);
  backward(total(checkpoint(pair, std::span(&x, 1))[0]));
  EXPECT_EQ(host(gradient_of(x)), inner);
  for (const Tensor& weight : weights) {
    EXPECT_TRUE(gradient_of(weight).defined());
    clear_gradient(weight);  // it is pending, and holds the weights
  }
}

TEST_F(Checkpoints, CanBeDifferentiatedTwice) {
  const auto product = [&](const Tensor& y) {
    const Tensor slope = gradients(total(y), std::span(&x, 1), {.differentiable = true})[0];
    return gradients(total(slope * slope), std::span(&x, 1))[0];
  };
  const Tensor expected = product(layer(std::span(&x, 1))[0]);
  double largest = 0;
  for (const float value : host(expected)) largest = std::max(largest, std::fabs(static_cast<double>(value)));
  expect_near(product(checkpoint(layer, std::span(&x, 1))[0]), expected, 64 * 0x1p-24 * largest);
}

TEST_F(Checkpoints, OfSeveralResultsPassOnWhatArrives) {
  const Functions two = [](std::span<const Tensor> in) {
    return std::vector{exp(in[0]), sin(in[1]), argmax(in[0], -1)};
  };
  const Tensor y = parameter(Shape{3}, 3), z = numbers(Shape{3}, 4);
  const std::vector<Tensor> results = checkpoint(two, std::vector{y, z});
  EXPECT_TRUE(needs_gradient(results[0]));
  EXPECT_FALSE(needs_gradient(results[1]));
  EXPECT_FALSE(needs_gradient(results[2]));
  expect_near(gradients(total(results[0] * results[1]), std::span(&y, 1))[0], exp(y) * sin(z), kFewRoundings);
}

TEST_F(Checkpoints, AreNothingWithoutGradients) {
  const NoGrad no_grad;
  EXPECT_FALSE(needs_gradient(checkpoint(layer, std::span(&x, 1))[0]));
}

TEST(InParts, TheGradientsAreTheSameWhateverIsEvaluatedFirst) {
  const std::vector<Tensor> weights = network_weights();
  const Tensor x = numbers(Shape{5, 8}, 7);
  const auto loss = [&] { return total(sort(network(x, weights))); };
  std::vector<Tensor> together = gradients(loss(), weights);
  eval(together);
  const Tensor before = loss(), after = loss();
  eval(std::span(&before, 1));
  const std::vector<Tensor> first = gradients(before, weights);
  const std::vector<Tensor> second = gradients(after, weights);
  eval(std::span(&after, 1));
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_EQ(host(first[i]), host(together[i])) << i;
    EXPECT_EQ(host(second[i]), host(together[i])) << i;
  }
}

TEST(Training, LearnsAndPlansEachStepOnce) {
  std::vector<Tensor> parameters{parameter(Shape{16, 3}, 1), parameter(Shape{16}, 2), parameter(Shape{1, 16}, 3)};
  const Tensor x = numbers(Shape{64, 3}, 5);
  const Tensor y = sum(x * x, -1, kKeepDims);  // [64, 1]
  float first = 0, last = 0;
  size_t plans = 0;
  for (int step = 0; step < 200; ++step) {
    const Tensor loss = mse_loss(linear(tanh(linear(x, parameters[0], parameters[1])), parameters[2]), y);
    backward(loss);
    std::vector<Tensor> results{loss};
    for (Tensor& parameter : parameters) {
      const NoGrad no_grad;
      parameter = parameter - gradient_of(parameter) * scalar(device(), 0.05);
      results.push_back(parameter);
    }
    eval(results);
    for (const Tensor& parameter : parameters) require_gradient(parameter);
    last = host(loss)[0];
    if (step == 0) first = last;
    if (step == 1) plans = plans_made(*device());
  }
  EXPECT_LT(last, 0.1f * first);
  EXPECT_EQ(plans_made(*device()), plans);
}

TEST(Training, NoGradIsOfOneThread) {
  const Tensor x = parameter(Shape{3}, 1);
  const NoGrad no_grad;
  bool elsewhere = false;
  std::thread([&] { elsewhere = needs_gradient(exp(x)); }).join();
  EXPECT_TRUE(elsewhere);
  EXPECT_FALSE(needs_gradient(exp(x)));
}

}  // namespace
}  // namespace gabbro::grad
