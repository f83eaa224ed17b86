// Every op's gradient against finite differences of its values. GABBRO_DEVICE chooses the device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "src/ops/cases/cases.h"
#include "src/ops/grad.h"
#include "src/ops/op_table.h"
#include "src/plan/eval.h"

namespace gabbro::grad {
namespace {

using cases::device, cases::GradientCase, cases::Input;
using Numbers = std::vector<float>;

// The cases of all entries.
const std::vector<GradientCase>& gradient_cases() {
  static const std::vector<GradientCase> all = [] {
    std::vector<GradientCase> joined;
    for (const cases::Entry& e : cases::entries()) joined.insert(joined.end(), e.gradients.begin(), e.gradients.end());
    return joined;
  }();
  return all;
}

// In random order, so that every element is one of the range's.
Numbers numbers_of(const Input& input, std::mt19937& random) {
  Numbers values;
  const auto count = static_cast<double>(input.shape.elements());
  for (double i = 0; i < count; ++i)
    values.push_back(static_cast<float>(input.low + (input.high - input.low) * (i + 0.5) / count));
  std::ranges::shuffle(values, random);
  return values;
}

class Differentiated : public testing::TestWithParam<size_t> {
 protected:
  const GradientCase& c = gradient_cases()[GetParam()];
  std::mt19937 random{7};
  std::vector<Numbers> x;

  std::vector<Tensor> upload(bool with_gradient) const {
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < x.size(); ++i) {
      tensors.push_back(device()->upload(DType::f32, c.inputs[i].shape, x[i].data()));
      if (with_gradient) require_gradient(tensors.back());
    }
    return tensors;
  }

  // Factors of a result's elements in the number that is differentiated.
  static Numbers factors(const Tensor& y, size_t index) {
    Numbers s;
    for (int64_t i = 0; i < y.shape().elements(); ++i)
      s.push_back(static_cast<float>((i * 7 + static_cast<int64_t>(index)) % 11 - 5) / 4);
    return s;
  }

  struct Value {
    double sum = 0, magnitude = 0;  // of the results times their factors, and of their absolute values
  };

  Value value() const {
    Value v;
    const NoGrad no_grad;
    const std::vector<Tensor> results = c.call(upload(false));
    eval(results);
    for (size_t k = 0; k < results.size(); ++k) {
      const Numbers y = to_host<float>(results[k]), s = factors(results[k], k);
      for (size_t i = 0; i < y.size(); ++i) {
        v.sum += static_cast<double>(y[i]) * static_cast<double>(s[i]);
        v.magnitude += std::fabs(static_cast<double>(y[i]) * static_cast<double>(s[i]));
      }
    }
    return v;
  }

  // d value / d h where input `at` moves by h times the signs.
  double difference(size_t at, const Numbers& signs, float h) {
    const Numbers before = x[at];
    for (size_t i = 0; i < before.size(); ++i) x[at][i] = before[i] + h * signs[i];
    const double above = value().sum;
    for (size_t i = 0; i < before.size(); ++i) x[at][i] = before[i] - h * signs[i];
    const double below = value().sum;
    x[at] = before;
    return (above - below) / (2 * static_cast<double>(h));
  }
};

TEST_P(Differentiated, IsWhatFiniteDifferencesSay) {
  for (const Input& input : c.inputs) x.push_back(numbers_of(input, random));
  const std::vector<Tensor> inputs = upload(true);
  const std::vector<Tensor> results = c.call(inputs);
  const std::vector<std::shared_ptr<Node>> nodes = trace(results).nodes;
  ASSERT_TRUE(std::ranges::any_of(nodes, [&](const auto& node) { return node->op == c.op; })) << "it is not called";
  std::vector<std::vector<double>> gradient(x.size());
  for (size_t i = 0; i < x.size(); ++i) gradient[i].resize(x[i].size());
  for (size_t k = 0; k < results.size(); ++k) {
    const Tensor seed = device()->upload(DType::f32, results[k].shape(), factors(results[k], k).data());
    const std::vector<Tensor> parts = gradients(results[k], inputs, {.seed = seed});
    eval(parts);
    for (size_t i = 0; i < parts.size(); ++i) {
      ASSERT_EQ(parts[i].spec(), inputs[i].spec());
      const Numbers part = to_host<float>(parts[i]);
      for (size_t j = 0; j < part.size(); ++j) gradient[i][j] += static_cast<double>(part[j]);
    }
  }
  // An element of a result is off by at most 16 units of 2^-24 of its largest terms; h is a power of two, so that
  // x ± h is exact to a unit. The truncation error of the difference is at most a third of the change by h/2.
  constexpr float kH = 0x1p-6f;
  const double rounding = 16 * 0x1p-24 * (value().magnitude + 1) / static_cast<double>(kH / 2);
  for (size_t at = 0; at < x.size(); ++at) {
    for (int direction = 0; direction < 4; ++direction) {
      Numbers signs(x[at].size());
      for (float& sign : signs) sign = random() % 2 == 0 ? 1 : -1;
      double expected = 0, magnitude = 0;
      for (size_t i = 0; i < signs.size(); ++i) {
        expected += gradient[at][i] * static_cast<double>(signs[i]);
        magnitude += std::fabs(gradient[at][i]);
      }
      const double wide = difference(at, signs, kH), narrow = difference(at, signs, kH / 2);
      const double finite = std::fabs(wide - narrow);
      ASSERT_LE(finite, 0.02 * magnitude + 2 * rounding) << "the function bends too much to judge input " << at;
      ASSERT_NEAR(narrow + (narrow - wide) / 3, expected, rounding * 3 + finite / 3) << "of input " << at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Differentiated, testing::Range<size_t>(0, gradient_cases().size()), [](const auto& at) {
  std::string name = std::to_string(at.param) + "_" + gradient_cases()[at.param].name;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

TEST(Coverage, EveryOpHasACaseOrAReasonWhyItHasNoGradient) {
  std::set<const Op*> with_case, without;
  for (const GradientCase& c : gradient_cases()) with_case.insert(c.op);
  for (const cases::Entry& e : cases::entries()) {
    for (const auto& [op, reason] : e.without_gradient) without.insert(op);
  }
  for (const Op* op : op_table()) EXPECT_NE(with_case.contains(op), without.contains(op)) << op->name;
}

}  // namespace
}  // namespace gabbro::grad
