// The weight gradient of a convolution whose columns do not fit into one chunk: the sum of what single images give.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "gabbro/ops/create.h"
#include "src/ops/cases/cases.h"
#include "src/ops/grad.h"
#include "src/ops/op_table.h"
#include "src/ops/window.h"
#include "src/plan/eval.h"

namespace gabbro::grad {
namespace {

using cases::device;

Tensor weight_gradient(const Tensor& x, const Tensor& dy) {
  WindowAxes w{.kernel = {1, 3, 3}, .padding = {0, 1, 1}};
  w.in = w.out = {1, 96, 96};
  Attributes attributes = window_attributes(w);
  attributes.set("groups", int64_t{1});
  return record(kConvWeightGradient, {x, dy}, attributes);
}

TEST(ConvChunks, weight_gradient_is_a_sum_over_images) {
  constexpr int64_t kImages = 7, kChannels = 64, kSide = 96;  // 21 MB of columns each, in f32
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const auto numbers = [&](const Shape& shape, float scale) {
    std::vector<float> values(static_cast<size_t>(shape.elements()));
    for (float& value : values) value = scale * normal(random);
    return device()->upload(DType::f32, shape, values.data());
  };
  const Tensor x = numbers(Shape{kImages, kChannels, 1, kSide, kSide}, 1);
  const Tensor dy = numbers(Shape{kImages, 2, 1, kSide, kSide}, 1);
  const std::vector<float> whole = to_host<float>(weight_gradient(x, dy));
  std::vector<double> sum(whole.size());
  for (int64_t i = 0; i < kImages; ++i) {
    const std::vector<float> single = to_host<float>(weight_gradient(slice(x, 0, i, 1), slice(dy, 0, i, 1)));
    for (size_t j = 0; j < sum.size(); ++j) sum[j] += static_cast<double>(single[j]);
  }
  // Sums of n = 64,512 products of deviation 1 have deviation sqrt(n); rounding adds at random sqrt(n) epsilon of it.
  const double n = static_cast<double>(kImages * kSide * kSide), tolerance = 8 * n * 0x1p-24;
  for (size_t j = 0; j < sum.size(); ++j) ASSERT_NEAR(static_cast<double>(whole[j]), sum[j], tolerance) << j;
}

}  // namespace
}  // namespace gabbro::grad
