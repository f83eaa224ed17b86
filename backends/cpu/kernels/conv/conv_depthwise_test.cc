// Depthwise convolutions on each instruction set: from scratch memory of NaNs, which nothing may reach a sum from. The
// shapes of tests/conformance/window_cases.cc run on every device.
#include <array>
#include <cmath>

#include "backends/cpu/kernel_test_util.h"

namespace gabbro::cpu::test {
namespace {

struct DepthwiseCase {
  std::array<int64_t, 2> in, kernel, stride, padding, dilation;
  int64_t images = 1, groups = 1, outputs = 1;  // of a group
  int64_t out(int i) const { return (in[i] + 2 * padding[i] - (kernel[i] - 1) * dilation[i] - 1) / stride[i] + 1; }
  int64_t taps() const { return kernel[0] * kernel[1]; }
};

class DepthwiseOperands {
 public:
  explicit DepthwiseOperands(const DepthwiseCase& c)
      : x(DType::f32, {c.images, c.groups, 1, c.in[0], c.in[1]}),
        weight(DType::f32, {c.groups * c.outputs, 1, 1, c.kernel[0], c.kernel[1]}),
        bias(DType::f32, {c.groups * c.outputs}),
        y(DType::f32, {c.images, c.groups * c.outputs, 1, c.out(0), c.out(1)}),
        case_(c) {
    std::mt19937 generator(7);
    for (Tensor* tensor : {&x, &weight, &bias}) tensor->random(generator);
  }

  Call call() {
    const DepthwiseCase& c = case_;
    return {"conv",
            {&x, &weight, &bias},
            {&y},
            {integer("groups", c.groups), integer("stride_h", c.stride[0]), integer("stride_w", c.stride[1]),
             integer("padding_h", c.padding[0]), integer("padding_w", c.padding[1]),
             integer("dilation_h", c.dilation[0]), integer("dilation_w", c.dilation[1])}};
  }

  // For each output the sum, and the bound that its error grows with.
  void sum(std::vector<double>& sums, std::vector<double>& sizes) {
    const DepthwiseCase& c = case_;
    for (int64_t i = 0; i < y.count(); ++i) {
      const int64_t column = i % c.out(1), row = i / c.out(1) % c.out(0), plane = i / c.out(1) / c.out(0);
      const int64_t channel = plane % (c.groups * c.outputs);
      double sum = bias.at<float>(channel), size = std::abs(sum);
      for (int64_t tap = 0; tap < c.taps(); ++tap) {
        const int64_t h = row * c.stride[0] - c.padding[0] + tap / c.kernel[1] * c.dilation[0];
        const int64_t w = column * c.stride[1] - c.padding[1] + tap % c.kernel[1] * c.dilation[1];
        if (h < 0 || h >= c.in[0] || w < 0 || w >= c.in[1]) continue;
        const double clipped = x.at<float>((plane / c.outputs * c.in[0] + h) * c.in[1] + w);
        const double product = clipped * weight.at<float>(channel * c.taps() + tap);
        sum += product;
        size += std::abs(product);
      }
      sums.push_back(sum);
      sizes.push_back(size);
    }
  }

  Tensor x, weight, bias, y;

 private:
  DepthwiseCase case_;
};

const std::vector<DepthwiseCase>& depthwise_cases() {
  static const std::vector<DepthwiseCase> kCases = {
      {.in = {1, 1}, .kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}},
      {.in = {7, 7}, .kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 5},
      {.in = {31, 33}, .kernel = {5, 5}, .stride = {1, 1}, .padding = {2, 2}, .dilation = {1, 1}, .images = 2},
      {.in = {15, 150}, .kernel = {7, 7}, .stride = {1, 1}, .padding = {3, 3}, .dilation = {1, 1}, .outputs = 3},
      {.in = {29, 31}, .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 3},
      {.in = {20, 90}, .kernel = {4, 1}, .stride = {1, 2}, .padding = {0, 35}, .dilation = {1, 1}, .outputs = 8},
      {.in = {21, 26}, .kernel = {9, 4}, .stride = {3, 3}, .padding = {4, 2}, .dilation = {1, 2}, .groups = 2},
      {.in = {25, 40}, .kernel = {3, 3}, .stride = {1, 1}, .padding = {4, 4}, .dilation = {4, 4}, .groups = 2},
      {.in = {1, 50}, .kernel = {1, 9}, .stride = {1, 1}, .padding = {0, 8}, .dilation = {1, 1}, .groups = 2},
  };
  return kCases;
}

// Images of at most eight columns, and more groups than a vector has lanes.
const std::vector<DepthwiseCase>& small_cases() {
  static const std::vector<DepthwiseCase> kCases = {
      {.in = {7, 7}, .kernel = {7, 7}, .stride = {1, 1}, .padding = {3, 3}, .dilation = {1, 1}, .groups = 37},
      {.in = {8, 8},
       .kernel = {3, 3},
       .stride = {1, 1},
       .padding = {1, 1},
       .dilation = {1, 1},
       .images = 3,
       .groups = 16},
      {.in = {1, 1},
       .kernel = {3, 3},
       .stride = {1, 1},
       .padding = {1, 1},
       .dilation = {1, 1},
       .images = 2,
       .groups = 24},
      {.in = {2, 3},
       .kernel = {1, 2},
       .stride = {1, 2},
       .padding = {0, 1},
       .dilation = {1, 1},
       .images = 2,
       .groups = 31},
      {.in = {30, 5}, .kernel = {9, 3}, .stride = {1, 1}, .padding = {4, 6}, .dilation = {1, 3}, .groups = 17},
      {.in = {6, 4}, .kernel = {4, 4}, .stride = {1, 1}, .padding = {0, 0}, .dilation = {1, 1}, .groups = 16},
  };
  return kCases;
}

void expect_sums_of_taps(const std::vector<DepthwiseCase>& cases, const std::string& implementation) {
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    const DepthwiseCase& c = cases[i];
    DepthwiseOperands operands(c);
    std::vector<double> sums, sizes;
    operands.sum(sums, sizes);
    for_each_isa([&](const IsaTable& isa, ThreadPool& pool) {
      EXPECT_EQ(make(isa, operands.call(), pool.workers())->implementation, implementation);
      operands.y.fill<float>([] { return NAN; });
      run(isa, operands.call(), pool);
      // Two roundings a tap without an fma.
      const double rounding = static_cast<double>(2 * c.taps() + 2) * kernel_test::kEpsilon / 2;
      expect_close(operands.y.values<float>(), sums, [&](size_t j) { return rounding * sizes[j]; });
    });
  }
}

TEST(DepthwiseConv, IsTheSumOfItsTaps) {
  expect_sums_of_taps(depthwise_cases(), "conv depthwise");
  expect_sums_of_taps(small_cases(), "conv depthwise small");
}

// Rows are copied by vectors that reach into what follows.
TEST(DepthwiseConv, WhatAnOutputDoesNotSeeDoesNotReachIt) {
  const DepthwiseCase c{
      .in = {9, 23}, .kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 3};
  DepthwiseCase strided = c, narrow = c;
  strided.stride = {2, 2};
  narrow.in = {9, 7};
  narrow.groups = 16;
  for (const DepthwiseCase& clipped : {c, strided, narrow}) {
    DepthwiseOperands operands(clipped);
    const int64_t columns = clipped.in[1], plane = 9 * columns;
    for (const int64_t place : {int64_t{0}, columns, columns - 1, plane - 1, 2 * plane + 4 * columns}) {
      operands.x.at<float>(place) = NAN;
    }
    std::vector<double> sums, sizes;
    operands.sum(sums, sizes);
    for_each_isa([&](const IsaTable& isa, ThreadPool& pool) {
      run(isa, operands.call(), pool);
      const std::vector<float> values = operands.y.values<float>();
      for (size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(std::isnan(values[i]), std::isnan(sums[i])) << i;
    });
  }
}

// Shapes without a kernel here are still convolved.
TEST(DepthwiseConv, LeavesOtherShapesToProducts) {
  const DepthwiseCase long_rows{
      .in = {1, 1000}, .kernel = {1, 9}, .stride = {1, 1}, .padding = {0, 4}, .dilation = {1, 1}};
  const DepthwiseCase far_taps{
      .in = {3, 400}, .kernel = {2, 2}, .stride = {1, 1}, .padding = {0, 0}, .dilation = {1, 200}};
  const DepthwiseCase many{
      .in = {9, 9}, .kernel = {3, 3}, .stride = {1, 1}, .padding = {0, 0}, .dilation = {1, 1}, .outputs = 9};
  for (const DepthwiseCase& c : {long_rows, far_taps, many}) {
    DepthwiseOperands operands(c);
    for_each_isa([&](const IsaTable& isa, ThreadPool& pool) {
      EXPECT_EQ(make(isa, operands.call(), pool.workers())->implementation, "conv");
    });
  }
}

}  // namespace
}  // namespace gabbro::cpu::test
