// Indices on every backend: negative ones count from the end; one out of range raises IndexError by the time the result
// is read, and leaves the device as it was. Sums of i32 are i64.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "src/backend/registry.h"
#include "src/base/input_errors.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"

namespace gabbro::conformance {
namespace {

constexpr int64_t kRows = 5, kColumns = 3;

class Indices : public testing::Test {
 protected:
  Tensor ints(const std::vector<int32_t>& values) const {
    return device_->upload(DType::i32, Shape{std::ssize(values)}, values.data());
  }
  Tensor wide(const std::vector<int64_t>& values) const {
    return device_->upload(DType::i64, Shape{std::ssize(values)}, values.data());
  }
  // 0, 1, 2, ... [5, 3]
  Tensor table() const { return reshape(iota(device_, kRows * kColumns, DType::f32), Shape{kRows, kColumns}); }
  Tensor ones(const Shape& shape) const { return full(device_, shape, 1, DType::f32); }
  Tensor none(const Shape& shape) const { return full(device_, shape, 0, DType::f32); }

  // Functions of two indices along an axis of `size`, by what an error calls them.
  struct Use {
    std::string op;
    int64_t axis, size;
    std::function<Tensor(const Tensor&)> function;
  };
  std::vector<Use> uses() const {
    return {
        {"gather", 0, kRows, [this](const Tensor& i) { return gather(table(), i); }},
        {"take", 0, kRows, [this](const Tensor& i) { return take(table(), i); }},
        {"take", 1, kColumns, [this](const Tensor& i) { return take(table(), i, 1); }},
        {"index", 0, kRows, [this](const Tensor& i) { return index(table(), {i}); }},
        {"index", 1, kColumns,
         [this](const Tensor& i) {
           return index(table(), {ints({0, 1}), i});
         }},
        {"embedding", 0, kRows, [this](const Tensor& i) { return embedding(table(), i); }},
        {"take_along_axis", 0, kColumns,
         [this](const Tensor& i) { return take_along_axis(iota(device_, kColumns, DType::f32), i); }},
        {"scatter_add", 0, kColumns,
         [this](const Tensor& i) { return scatter_add(none(Shape{kColumns}), i, ones(Shape{2})); }},
        {"put_along_axis", 0, kColumns,
         [this](const Tensor& i) { return put_along_axis(none(Shape{kColumns}), i, ones(Shape{2})); }},
        {"index_add", 0, kRows,
         [this](const Tensor& i) {
           return index_add(none(Shape{kRows, 2}), i, ones(Shape{2, 2}));
         }},
    };
  }

  std::shared_ptr<Device> device_ = open_device("auto", {.threads = 2});
};

std::string message_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const IndexError& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(Indices, NegativeOnesCountFromTheEnd) {
  for (const Use& use : uses()) {
    const auto end = static_cast<int32_t>(use.size);
    const std::vector<float> expected = to_host<float>(use.function(ints({end - 1, 0})));
    EXPECT_EQ(to_host<float>(use.function(ints({-1, -end}))), expected) << use.op << use.axis;
    EXPECT_EQ(to_host<float>(use.function(wide({-1, -end}))), expected) << use.op << use.axis;
  }
}

TEST_F(Indices, OutOfRangeOnesAreReportedOnce) {
  for (const Use& use : uses()) {
    const std::vector<float> expected = to_host<float>(use.function(ints({1, 0})));
    for (const int64_t bad : {use.size, -use.size - 1, int64_t{1} << 30, -(int64_t{1} << 31), int64_t{1} << 32}) {
      const std::string text =
          fmt::format("[{}] index {} is outside axis {} of size {}", use.op, bad, use.axis, use.size);
      EXPECT_EQ(message_of([&] { to_host<float>(use.function(wide({1, bad}))); }), text);
      if (bad == static_cast<int32_t>(bad)) {
        const auto narrow = static_cast<int32_t>(bad);
        EXPECT_EQ(message_of([&] { to_host<float>(use.function(ints({narrow, narrow}))); }), text);
      }
      EXPECT_EQ(to_host<float>(use.function(ints({1, 0}))), expected) << use.op;  // the device goes on
    }
  }
}

TEST_F(Indices, WaitingForTheDeviceReportsThem) {
  const std::string text = message_of([&] {
    const Tensor y = take(table(), ints({7}));
    eval(std::span(&y, 1));
    device_->synchronize();
  });
  EXPECT_EQ(text, "[take] index 7 is outside axis 0 of size 5");
  device_->synchronize();
}

TEST_F(Indices, LabelsAreNotNegative) {
  const Tensor x = table();
  const std::vector<float> losses = to_host<float>(nll_loss(x, wide({0, -100, 2, 1, -100}), Reduce::kNone));
  EXPECT_EQ(losses, (std::vector<float>{0, 0, -8, -10, 0}));
  for (const int64_t bad : {int64_t{-1}, kColumns, int64_t{1} << 40}) {
    const std::string text = fmt::format("label {} is outside axis 1 of size 3", bad);
    EXPECT_EQ(message_of([&] {
                to_host<float>(cross_entropy(x, wide({0, bad, 2, 1, 0})));
              }),
              "[cross_entropy] " + text);
    if (bad != static_cast<int32_t>(bad)) continue;
    const Tensor labels = ints({0, static_cast<int32_t>(bad), 2, 1, 0});
    EXPECT_EQ(message_of([&] { to_host<float>(nll_loss(x, labels)); }), "[nll_loss] " + text);
  }
}

TEST_F(Indices, SumsOfIntegersAreWide) {
  constexpr int32_t kLarge = std::numeric_limits<int32_t>::max();
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1, 3}, {7, 65}, {3, 20000}, {300, 9}}) {
    const Tensor x = full(device_, Shape{rows, columns}, kLarge, DType::i32);
    EXPECT_EQ(to_host<int64_t>(sum(x, 1)), std::vector<int64_t>(static_cast<size_t>(rows), columns * int64_t{kLarge}));
    EXPECT_EQ(to_host<int64_t>(sum(x, 0)), std::vector<int64_t>(static_cast<size_t>(columns), rows * int64_t{kLarge}));
    EXPECT_EQ(to_host<int64_t>(sum(x, kAllAxes)), std::vector<int64_t>{rows * columns * int64_t{kLarge}});
    const std::vector<int64_t> sums = to_host<int64_t>(cumsum(x, 1));
    for (int64_t i = 0; i < rows * columns; ++i)
      ASSERT_EQ(sums[static_cast<size_t>(i)], (i % columns + 1) * kLarge) << i << " of " << columns;
  }
  EXPECT_EQ(to_host<int64_t>(prod(full(device_, Shape{3}, 1 << 20, DType::i32), kAllAxes)),
            std::vector<int64_t>{int64_t{1} << 60});
}

}  // namespace
}  // namespace gabbro::conformance
