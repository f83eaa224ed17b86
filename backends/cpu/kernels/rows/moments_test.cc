// Means and variances of all forms that a channel has in memory, on each instruction set, against f64.
#include <cmath>
#include <random>

#include "backends/cpu/kernel_test_util.h"

namespace gabbro::cpu::test {
namespace {

struct Form {
  int64_t images, channels, inner;
};

// Around a block's 4096 elements, a tile's 256 columns, a vector's 16 lanes, and rows that are folded to one.
constexpr Form kForms[] = {{1, 1, 1},    {1, 1, 4096}, {1, 1, 4097},  {1, 3, 8191},  {10007, 1, 1},
                           {2, 3, 9000}, {5, 3, 700},  {130, 2, 64},  {16, 2, 1},    {17, 3, 1},
                           {1021, 3, 1}, {16, 257, 1}, {300, 255, 1}, {130, 513, 1}, {33, 5, 7},
                           {1000, 2, 3}, {15, 70, 1},  {64, 1000, 1}, {300, 7, 63}};

// Far from 0, with another mean in each part of a channel.
float element(int64_t i, int64_t count, std::mt19937& random) {
  const double ramp = 3.0 * static_cast<double>(i) / static_cast<double>(count);
  return static_cast<float>(10000 + ramp + std::normal_distribution<double>()(random));
}

TEST(Moments, FarFromZero) {
  for (const Form& form : kForms) {
    std::mt19937 random(7);
    Tensor x(DType::f32, {form.images, form.channels, form.inner});
    Tensor mean(DType::f32, {form.channels}), variance(DType::f32, {form.channels});
    for (int64_t i = 0; i < x.count(); ++i) x.data<float>()[i] = element(i, x.count(), random);
    std::vector<double> means, variances;
    for (int64_t channel = 0; channel < form.channels; ++channel) {
      double sum = 0, squares = 0;
      const auto each = [&](auto body) {
        for (int64_t image = 0; image < form.images; ++image)
          for (int64_t i = 0; i < form.inner; ++i)
            body(double{x.data<float>()[(image * form.channels + channel) * form.inner + i]});
      };
      const auto count = static_cast<double>(form.images * form.inner);
      each([&](double value) { sum += value; });
      means.push_back(sum / count);
      each([&](double value) { squares += (value - sum / count) * (value - sum / count); });
      variances.push_back(squares / count);
    }
    for_each_isa([&](const IsaTable& isa, ThreadPool& pool) {
      run(isa, {"moments", {&x}, {&mean, &variance}, {}}, pool);
      // A block adds up at most 64 numbers in a lane: 16 units is a wide bound of what random roundings come to.
      expect_close(mean.values<float>(), means, [&](size_t i) { return std::abs(means[i]) * 0x1p-23; });
      expect_close(variance.values<float>(), variances, [&](size_t i) { return variances[i] * 0x1p-20; });
    });
  }
}

TEST(Moments, OfEqualElementsIsExact) {
  for (const Form& form : kForms) {
    Tensor x(DType::f32, {form.images, form.channels, form.inner});
    Tensor mean(DType::f32, {form.channels}), variance(DType::f32, {form.channels});
    std::fill_n(x.data<float>(), x.count(), 0.1f);
    for_each_isa([&](const IsaTable& isa, ThreadPool& pool) {
      run(isa, {"moments", {&x}, {&mean, &variance}, {}}, pool);
      for (const float value : mean.values<float>()) EXPECT_EQ(value, 0.1f);
      for (const float value : variance.values<float>()) EXPECT_EQ(value, 0);
    });
  }
}

}  // namespace
}  // namespace gabbro::cpu::test
