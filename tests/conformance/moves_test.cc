// gather and concat move whole 16-byte vectors if rows allow it, against the same on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/backend/registry.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"

namespace gabbro::conformance {
namespace {

// Number i of a tensor, exact in all dtypes.
float number(int64_t i) { return static_cast<float>(i * 37 % 251); }

std::vector<float> values_of(const Tensor& x) { return to_host<float>(cast(x, DType::f32)); }

constexpr DType kDTypes[] = {DType::f32, DType::f16, DType::i64, DType::u8};

class Moves : public testing::Test {
 protected:
  std::shared_ptr<Device> device() const { return device_; }
  Tensor numbers(const Shape& shape, DType dtype) const {
    std::vector<float> values(static_cast<size_t>(shape.elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = number(static_cast<int64_t>(i));
    Tensor x = cast(device()->upload(DType::f32, shape, values.data()), dtype);
    eval(std::span(&x, 1));
    return x;
  }

 private:
  std::shared_ptr<Device> device_ = open_device("auto", {.threads = 2});
};

TEST_F(Moves, GatherTakesRowsOfAnyLength) {
  constexpr int64_t kLines = 11, kPicks = 70, kPitch = 40;
  std::vector<int32_t> picks;
  for (int64_t i = 0; i < kPicks; ++i)
    picks.push_back(static_cast<int32_t>(i * 7 % (2 * kLines) - kLines));  // some from the end
  const Tensor indices = device()->upload(DType::i32, Shape{kPicks}, picks.data());
  for (const DType dtype : kDTypes) {
    const Tensor whole = numbers(Shape{kLines, kPitch}, dtype);
    const std::vector<float> source = values_of(whole);
    for (const int64_t columns : {int64_t{1}, int64_t{7}, int64_t{16}, int64_t{32}, kPitch}) {
      for (const int64_t first : {int64_t{0}, kPitch - columns}) {  // a row of the view begins anywhere
        SCOPED_TRACE(fmt::format("{} {} from {}", dtype_name(dtype), columns, first));
        const std::vector<float> actual = values_of(gather(slice(whole, 1, first, columns), indices));
        ASSERT_EQ(actual.size(), static_cast<size_t>(kPicks * columns));
        for (int64_t i = 0; i < kPicks * columns; ++i) {
          const int64_t row = (picks[static_cast<size_t>(i / columns)] + kLines) % kLines;
          ASSERT_EQ(actual[static_cast<size_t>(i)], source[static_cast<size_t>(row * kPitch + first + i % columns)]);
        }
      }
    }
  }
}

TEST_F(Moves, ConcatTakesPartsOfAnyLength) {
  for (const DType dtype : kDTypes) {
    for (const auto& [left, right] : {std::pair<int64_t, int64_t>{16, 32}, {16, 5}, {3, 13}, {48, 16}}) {
      SCOPED_TRACE(fmt::format("{} {} {}", dtype_name(dtype), left, right));
      constexpr int64_t kLines = 9;
      const Tensor a = numbers(Shape{kLines, left}, dtype), b = numbers(Shape{kLines, right}, dtype);
      const std::vector<float> first = values_of(a), second = values_of(b), actual = values_of(concat({a, b}, 1)),
                               below = values_of(concat({a, a}, 0));
      for (int64_t row = 0; row < kLines; ++row) {
        for (int64_t column = 0; column < left + right; ++column) {
          const float expected = column < left ? first[static_cast<size_t>(row * left + column)]
                                               : second[static_cast<size_t>(row * right + column - left)];
          ASSERT_EQ(actual[static_cast<size_t>(row * (left + right) + column)], expected) << row << ", " << column;
        }
      }
      for (size_t i = 0; i < below.size(); ++i) ASSERT_EQ(below[i], first[i % first.size()]);
    }
  }
}

}  // namespace
}  // namespace gabbro::conformance
