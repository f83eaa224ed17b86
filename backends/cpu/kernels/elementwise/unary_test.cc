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

// For every f16 or bf16 between -10 and 10: the nearest result, or one that is off by a sixteenth of a unit more.
template <class T>
void check_f16(DType dtype) {
  std::vector<T> values;
  std::vector<double> expected;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    T x;
    x.bits = static_cast<uint16_t>(bits);
    const auto value = static_cast<double>(static_cast<float>(x));
    if (!(std::abs(value) < 10)) continue;
    values.push_back(x);
    expected.push_back(0.5 * value * std::erfc(-value * M_SQRT1_2));
  }
  Tensor x(dtype, {static_cast<int64_t>(values.size())}), y(dtype, {x.count()});
  std::copy(values.begin(), values.end(), x.data<T>());
  constexpr bool kIsHalf = std::is_same_v<T, Half>;
  for_each_isa([&](const IsaTable& isa, ThreadPool& pool) {
    run(isa, {"gelu", {&x}, {&y}, {}}, pool);
    std::vector<float> values;
    for (const T value : y.values<T>()) values.push_back(static_cast<float>(value));
    expect_close(values, expected, [&](size_t i) {
      const double unit =
          kIsHalf ? std::max(std::abs(expected[i]) * 0x1p-10, 0x1p-24) : std::abs(expected[i]) * 0x1p-7 + 0x1p-126;
      return unit * (0.5 + 0.0625);
    });
  });
}
TEST(Gelu, of_f16_and_bf16) {
  check_f16<Half>(DType::f16);
  check_f16<BFloat>(DType::bf16);
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
