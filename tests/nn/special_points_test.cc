// Gradients where formulas have corners, poles or ties, from PyTorch 2.15, which the Python package is compared
// with at many more points (python/tests/test_special_points.py). GABBRO_DEVICE chooses the device.
#include <gtest/gtest.h>

#include <cmath>

#include "gabbro/nn/activation.h"
#include "gabbro/nn/loss.h"
#include "gabbro/nn/similarity.h"
#include "src/backend/registry.h"
#include "src/ops/grad.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"

namespace gabbro::nn {
namespace {

using Numbers = std::vector<float>;
using Unary = std::function<Tensor(const Tensor&)>;

const std::shared_ptr<Device>& device() {
  static const std::shared_ptr<Device> opened = open_device("auto", {.threads = 2});
  return opened;
}

Tensor upload(const Shape& shape, const Numbers& x) { return device()->upload(DType::f32, shape, x.data()); }

// Gradients of the sum of f(x), of the first and of the second order.
Numbers gradient(const Unary& f, const Tensor& x, int order = 1) {
  const std::vector<Tensor> inputs{x};
  const Function below = [&](std::span<const Tensor> i) {
    if (order == 1) return sum(f(i[0]), kAllAxes);
    return sum(value_and_grad([&](std::span<const Tensor> j) { return sum(f(j[0]), kAllAxes); }, i).gradients[0],
               kAllAxes);
  };
  return to_host<float>(value_and_grad(below, inputs).gradients[0]);
}

void expect_near(const Numbers& actual, const Numbers& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], std::fabs(expected[i]) * 0x1p-18) << what << ", element " << i;
}

TEST(SpecialPoints, Activations) {
  const Tensor x = upload(Shape{4}, {0.0f, -0.0f, 1e-3f, -30.0f});
  const float tail = 9.3576229e-14f;  // e^-30
  expect_near(gradient([](const Tensor& v) { return elu(v); }, x), {1, 1, 1, tail}, "elu");
  expect_near(gradient([](const Tensor& v) { return elu(v, 2); }, x), {2, 2, 1, 2 * tail}, "elu of 2");
  expect_near(gradient([](const Tensor& v) { return celu(v, 2); }, x), {1, 1, 1, 3.0590232e-07f}, "celu of 2");
  expect_near(gradient([](const Tensor& v) { return leaky_relu(v, 0.25); }, x), {0.25f, 0.25f, 1, 0.25f}, "leaky_relu");
  expect_near(gradient([](const Tensor& v) { return selu(v); }, x),
              {1.7580993f, 1.7580993f, 1.0507010f, 1.6451630e-13f}, "selu");
  const Unary soft = [](const Tensor& v) { return softplus(v); };
  expect_near(gradient(soft, x, 2), {0.25f, 0.25f, 0.24999994f, tail}, "softplus, twice");
  const PReLU prelu({.device = device()}, 1, 0.25);
  expect_near(gradient([&](const Tensor& v) { return const_cast<PReLU&>(prelu).forward(v); }, x),
              {0.25f, 0.25f, 1, 0.25f}, "prelu");
}

TEST(SpecialPoints, StatisticsAndNormsOfEqualAndZeroRows) {
  const Tensor x = upload(Shape{2, 3}, {0.1f, 0.1f, 0.1f, 0, 0, 0});
  for (const double correction : {0.0, 1.0}) {
    const Unary deviation = [&](const Tensor& v) { return gabbro::std(v, 1, correction); };
    EXPECT_EQ(to_host<float>(deviation(x)), Numbers(2, 0));
    EXPECT_EQ(gradient(deviation, x), Numbers(6, 0));
    EXPECT_EQ(
        gradient([&](const Tensor& v) { return gabbro::std(v, kAllAxes, correction); }, upload(Shape{3}, {2, 2, 2})),
        Numbers(3, 0));
  }
  const Tensor zeros = upload(Shape{1, 2}, {0, 0}), other = upload(Shape{1, 2}, {3, 4});
  expect_near(gradient([](const Tensor& v) { return normalize(v); }, zeros), {1e12f, 1e12f}, "normalize");
  expect_near(gradient([&](const Tensor& v) { return cosine_similarity(v, other); }, zeros), {6e7f, 8e7f}, "cosine");
}

TEST(SpecialPoints, FunctionsOfTwo) {
  const Tensor zero = upload(Shape{1}, {0}), nan = upload(Shape{1}, {NAN});
  for (const bool second : {false, true}) {
    const auto of = [&](Tensor (*f)(const Tensor&, const Tensor&), const Tensor& rest) -> Unary {
      return [=](const Tensor& v) { return second ? f(rest, v) : f(v, rest); };
    };
    EXPECT_EQ(gradient(of(gabbro::atan2, zero), zero), Numbers{0});
    EXPECT_EQ(gradient(of(maximum, zero), zero), Numbers{0.5});
    EXPECT_EQ(gradient(of(minimum, nan), zero), Numbers{1});
    const Tensor denormal = upload(Shape{1}, {1e-40f});
    expect_near(gradient(of(gabbro::hypot, zero), denormal), {1}, "hypot");
  }
}

TEST(SpecialPoints, SecondDerivativesOfProdWithZeros) {
  const Unary product = [](const Tensor& v) { return prod(v, 1); };
  const Tensor x = upload(Shape{4, 3}, {2, 3, 4, 0, 3, 4, 0, 0, 4, 0, 0, 0});
  expect_near(gradient(product, x), {12, 8, 6, 12, 0, 0, 0, 0, 0, 0, 0, 0}, "once");
  expect_near(gradient(product, x, 2), {7, 6, 5, 7, 4, 3, 4, 4, 0, 0, 0, 0}, "twice");
}

}  // namespace
}  // namespace gabbro::nn
