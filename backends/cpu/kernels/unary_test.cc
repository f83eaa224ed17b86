// How close gelu comes, on each instruction set.
#include <cmath>

#include "backends/cpu/kernel_test_util.h"

namespace gabbro::cpu::test {
namespace {

// The relative error where Φ is small, for which 1 + erf(x / √2) would leave nothing.
TEST(Gelu, is_close_where_it_is_small) {
  std::vector<double> expected;
  std::vector<float> values;
  for (float x = -9.99f; x < 9.99f; x += 0x1.01p-9f) values.push_back(x);
  Tensor x(DType::f32, {static_cast<int64_t>(values.size())}), y(DType::f32, {x.count()});
  std::copy(values.begin(), values.end(), x.data<float>());
  for (const float value : values) expected.push_back(0.5 * value * std::erfc(-value * M_SQRT1_2));
  for_each_isa([&](const IsaTable& isa, ThreadPool& pool) {
    run(isa, {"gelu", {&x}, {&y}, {}}, pool);
    // Without an fma the exponent x² / 2 is off by two roundings.
    const bool fused = isa.name != std::string_view("scalar");
    expect_close(y.values<float>(), expected, [&](size_t i) {
      return (8 + (fused ? 0 : values[i] * values[i])) * kernel_test::kEpsilon / 2 * std::abs(expected[i]);
    });
  });
}

TEST(Gelu, ends) {
  const std::vector<std::pair<float, float>> examples = {{NAN, NAN},
                                                         {INFINITY, INFINITY},
                                                         {-INFINITY, NAN},
                                                         {-3e38f, -0.0f},
                                                         {-10.001f, -0.0f},
                                                         {3e38f, 3e38f},
                                                         {0, 0},
                                                         {-0.0f, -0.0f},
                                                         {0x1p-100f, 0x1p-101f},
                                                         {-0x1p-100f, -0x1p-101f}};
  Tensor x(DType::f32, {static_cast<int64_t>(examples.size())}), y(DType::f32, {x.count()});
  for (size_t i = 0; i < examples.size(); ++i) x.at<float>(static_cast<int64_t>(i)) = examples[i].first;
  for_each_isa([&](const IsaTable& isa, ThreadPool& pool) {
    run(isa, {"gelu", {&x}, {&y}, {}}, pool);
    for (size_t i = 0; i < examples.size(); ++i) {
      const auto [from, expected] = examples[i];
      const float actual = y.at<float>(static_cast<int64_t>(i));
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(actual)) << from;
      } else {
        EXPECT_EQ(actual, expected) << from;
      }
      if (expected == 0) {
        EXPECT_EQ(std::signbit(actual), std::signbit(expected)) << from;
      }
    }
  });
}

}  // namespace
}  // namespace gabbro::cpu::test
