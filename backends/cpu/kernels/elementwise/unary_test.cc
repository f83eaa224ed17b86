// Accuracy of the elementwise functions, on each instruction set.
#include <bit>
#include <cmath>
#include <limits>

#include "backends/cpu/kernel_test_util.h"

namespace gabbro::cpu::test {
namespace {

// Error in units in the last place of a float. Infinite results must be, and 0 has its sign.
double ulps(float actual, double expected) {
  constexpr double kWrong = 1e9;
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) == std::isnan(actual) ? 0 : kWrong;
  const auto nearest = static_cast<float>(expected);
  if (actual == nearest) return std::signbit(actual) == std::signbit(nearest) ? 0.5 : kWrong;
  if (std::isinf(nearest)) return std::isinf(expected) || std::isinf(actual) ? kWrong : 1;
  if (std::isinf(actual)) return std::abs(expected) > 0x1.fffffdp127 ? 1 : kWrong;
  int exponent = -149;
  if (expected != 0) std::frexp(expected, &exponent);
  return std::abs(actual - expected) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

struct Function {
  const char* op;
  double (*of)(double);  // of the C library for f64, within one of its units
  double most = 2;       // units of the last place
};
// As in PyTorch, eˣ overflows to infinity beyond the range of f32.
double one_plus_exp(double x) {
  const double power = std::exp(x);
  return power > static_cast<double>(std::numeric_limits<float>::max()) ? INFINITY : 1 + power;
}

// exp2 is pow with a base of 2.
constexpr Function kFunctions[] = {
    {"exp", std::exp},
    {"expm1", std::expm1},
    {"log", std::log},
    {"log1p", std::log1p},
    {"log2", std::log2},
    {"log10", std::log10},
    {"sin", std::sin},
    {"cos", std::cos},
    {"tan", std::tan},
    {"asin", std::asin},
    {"acos", std::acos},
    {"atan", std::atan},
    {"sinh", std::sinh},
    {"cosh", std::cosh},
    {"tanh", std::tanh},
    {"asinh", std::asinh},
    {"acosh", std::acosh},
    {"atanh", std::atanh},
    {"erf", std::erf},
    {"sqrt", std::sqrt},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
    {"sigmoid", [](double x) { return 1 / one_plus_exp(-x); }, 2.5},
    {"silu", [](double x) { return x / one_plus_exp(-x); }, 3.5},
    {"exp2", [](double x) { return std::exp2(x); }},
};

// Every 9973rd float of all there are, so that all exponents and both signs occur, and those next to the ends of
// ranges.
std::vector<float> arguments() {
  std::vector<float> values;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 9973)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (const float x : {0.0f, 0x1p-149f, 0x1p-126f, 0.5f, 0.625f, 1.0f, 9.0f, 88.0f, 1e5f, INFINITY}) {
    for (const float sign : {1.0f, -1.0f}) {
      values.insert(values.end(), {sign * x, sign * std::nextafter(x, 0.0f), sign * std::nextafter(x, INFINITY)});
    }
  }
  return values;
}

TEST(Functions, AreWithinAFewUnitsOfTheLastPlace) {
  const std::vector<float> values = arguments();
  Tensor x(DType::f32, {static_cast<int64_t>(values.size())}), y(DType::f32, {x.count()}),
      two(DType::f32, {x.count()}, {0}, 0, 1);
  std::copy(values.begin(), values.end(), x.data<float>());
  two.at<float>(0) = 2;
  for (const Function& function : kFunctions) {
    std::vector<double> expected;
    for (const float value : values) expected.push_back(function.of(static_cast<double>(value)));
    for_each_isa([&](const IsaTable& isa, ThreadPool& pool) {
      if (pool.workers() > 1) return;
      const bool power = function.op == std::string_view("exp2");
      run(isa, power ? Call{"pow", {&two, &x}, {&y}, {}} : Call{function.op, {&x}, {&y}, {}}, pool);
      double worst = 0;
      size_t where = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        const double error = ulps(y.at<float>(static_cast<int64_t>(i)), expected[i]);
        if (error > worst) worst = error, where = i;
      }
      EXPECT_LE(worst, function.most) << function.op << "(" << values[where] << ") is "
                                      << y.at<float>(static_cast<int64_t>(where)) << " instead of " << expected[where];
      RecordProperty(std::string(function.op) + "_" + std::string(isa.name), std::to_string(worst));
    });
  }
}

// The relative error where Φ is small, for which 1 + erf(x / √2) would leave nothing.
TEST(Gelu, IsCloseWhereItIsSmall) {
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

TEST(Gelu, IsCloseWhereItIsSmallInF64) {
  std::vector<double> values;
  std::vector<long double> expected;
  for (double x = -37.3; x < 9; x += 0x1.01p-4) values.push_back(x);
  Tensor x(DType::f64, {static_cast<int64_t>(values.size())}), y(DType::f64, {x.count()});
  std::copy(values.begin(), values.end(), x.data<double>());
  for (const long double value : values) expected.push_back(0.5L * value * std::erfc(-value * std::sqrt(0.5L)));
  for_each_isa([&](const IsaTable& isa, ThreadPool& pool) {
    run(isa, {"gelu", {&x}, {&y}, {}}, pool);
    for (size_t i = 0; i < values.size(); ++i) {
      // An error of erfc's argument is x² times as large in the result.
      const double most = (8 + 2 * values[i] * values[i]) * 0x1p-53 * static_cast<double>(std::abs(expected[i]));
      EXPECT_NEAR(y.at<double>(static_cast<int64_t>(i)), static_cast<double>(expected[i]), most) << values[i];
    }
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
    std::vector<float> actual;
    for (const T value : y.values<T>()) actual.push_back(static_cast<float>(value));
    expect_close(actual, expected, [&](size_t i) {
      const double unit =
          kIsHalf ? std::max(std::abs(expected[i]) * 0x1p-10, 0x1p-24) : std::abs(expected[i]) * 0x1p-7 + 0x1p-126;
      return unit * (0.5 + 0.0625);
    });
  });
}
TEST(Gelu, OfF16AndBf16) {
  check_f16<Half>(DType::f16);
  check_f16<BFloat>(DType::bf16);
}

TEST(Gelu, Ends) {
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
