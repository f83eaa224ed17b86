// Random graphs of elementwise ops and views: the planned result is what a naive interpreter computes, exactly.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <thread>

#include "src/backend/registry.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"

namespace gabbro {
namespace {

const std::shared_ptr<Device>& device() {
  static const std::shared_ptr<Device> opened = open_device("auto", {.threads = 2});
  return opened;
}

// A dense array, and the lazy tensor that should come to equal it.
struct Value {
  std::vector<int64_t> shape;
  std::vector<float> data;
  Tensor tensor;
};

std::vector<int64_t> index_of(int64_t flat, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = flat % shape[axis];
    flat /= shape[axis];
  }
  return index;
}

float element(const Value& x, const std::vector<int64_t>& index) {
  int64_t flat = 0;
  for (size_t axis = 0; axis < index.size(); ++axis) flat = flat * x.shape[axis] + index[axis];
  return x.data[static_cast<size_t>(flat)];
}

// A value of this shape whose element at `index` is at(index).
template <class At>
Value fill(std::vector<int64_t> shape, Tensor tensor, At&& at) {
  Value y{.shape = std::move(shape), .data = {}, .tensor = std::move(tensor)};
  const int64_t count = std::accumulate(y.shape.begin(), y.shape.end(), int64_t{1}, std::multiplies<>());
  for (int64_t i = 0; i < count; ++i) y.data.push_back(at(index_of(i, y.shape)));
  return y;
}

Value leaf() {
  const auto rank = *rc::gen::inRange<size_t>(1, 4);
  std::vector<int64_t> shape;
  while (shape.size() < rank) shape.push_back(*rc::gen::inRange<int64_t>(1, 6));
  Value x = fill(shape, Tensor(), [](const auto&) { return static_cast<float>(*rc::gen::inRange(-8, 9)) / 4; });
  x.tensor = device()->upload(DType::f32, Shape(shape), x.data.data());
  return x;
}

Value unary(const Value& x) {
  const auto kind = *rc::gen::inRange(0, 3);
  const Tensor y = kind == 0 ? neg(x.tensor) : kind == 1 ? abs(x.tensor) : sum(x.tensor, -1, kKeepDims);
  if (kind < 2)
    return fill(x.shape, y, [&](const auto& i) { return kind == 0 ? -element(x, i) : std::fabs(element(x, i)); });
  std::vector<int64_t> shape = x.shape;
  shape.back() = 1;
  return fill(shape, y, [&](std::vector<int64_t> i) {
    float total = 0;  // of few small multiples of a power of two: exact in any order
    for (i.back() = 0; i.back() < x.shape.back(); ++i.back()) total += element(x, i);
    return total;
  });
}

// With itself, with a slice of length 1 of itself (which broadcasts), or with a transposed copy.
Value binary(const Value& x) {
  const auto axis = *rc::gen::inRange<size_t>(0, x.shape.size());
  const int64_t at = *rc::gen::inRange<int64_t>(0, x.shape[axis]);
  const Tensor other = slice(x.tensor, static_cast<int64_t>(axis), at, 1);
  const auto kind = *rc::gen::inRange(0, 4);
  const Tensor y = kind == 0   ? x.tensor + other
                   : kind == 1 ? other - x.tensor
                   : kind == 2 ? maximum(x.tensor, other)
                               : where(less(x.tensor, other), other, x.tensor);
  return fill(x.shape, y, [&](std::vector<int64_t> i) {
    const float a = element(x, i);
    i[axis] = at;
    const float b = element(x, i);
    return kind == 0 ? a + b : kind == 1 ? b - a : std::max(a, b);
  });
}

Value transposed(const Value& x) {
  std::vector<int> axes(x.shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  std::rotate(axes.begin(), axes.begin() + *rc::gen::inRange(0, static_cast<int>(axes.size())), axes.end());
  std::vector<int64_t> shape;
  for (const int axis : axes) shape.push_back(x.shape[static_cast<size_t>(axis)]);
  return fill(shape, permute(x.tensor, axes), [&](const std::vector<int64_t>& i) {
    std::vector<int64_t> source(i.size());
    for (size_t a = 0; a < i.size(); ++a) source[static_cast<size_t>(axes[a])] = i[a];
    return element(x, source);
  });
}

Value cut(const Value& x) {
  const auto axis = *rc::gen::inRange<size_t>(0, x.shape.size());
  const int64_t start = *rc::gen::inRange<int64_t>(0, x.shape[axis]);
  const int64_t step = *rc::gen::inRange<int64_t>(1, 3);
  std::vector<int64_t> shape = x.shape;
  shape[axis] = (x.shape[axis] - start + step - 1) / step;
  return fill(shape, slice(x.tensor, static_cast<int64_t>(axis), start, shape[axis], step),
              [&](std::vector<int64_t> i) {
                i[axis] = start + i[axis] * step;
                return element(x, i);
              });
}

Value reshaped(const Value& x) {
  std::vector<int64_t> shape = x.shape;
  if (shape.size() > 1 && *rc::gen::arbitrary<bool>()) {
    shape[1] *= shape[0];
    shape.erase(shape.begin());
  } else if (shape.size() < 5) {
    const int64_t part = shape[0] % 2 == 0 ? 2 : 1;
    shape[0] /= part;
    shape.insert(shape.begin() + 1, part);
  }
  return {.shape = shape, .data = x.data, .tensor = reshape(x.tensor, Shape(shape))};
}

Value doubled(const Value& x) {
  const auto axis = *rc::gen::inRange<size_t>(0, x.shape.size());
  std::vector<int64_t> shape = x.shape;
  shape[axis] *= 2;
  return fill(shape, concat({x.tensor, neg(x.tensor)}, static_cast<int64_t>(axis)), [&](std::vector<int64_t> i) {
    const bool second = i[axis] >= x.shape[axis];
    if (second) i[axis] -= x.shape[axis];
    return second ? -element(x, i) : element(x, i);
  });
}

RC_GTEST_PROP(RandomGraph, IsWhatANaiveInterpreterComputes, ()) {
  constexpr Value (*kSteps[])(const Value&) = {unary, binary, binary, transposed, cut, reshaped, doubled};
  std::vector<Value> values{leaf()};
  const int count = *rc::gen::inRange(1, 12);
  for (int i = 0; i < count; ++i) {
    const Value& x = values[*rc::gen::inRange<size_t>(0, values.size())];
    if (x.data.size() > 2000) continue;
    values.push_back(kSteps[*rc::gen::inRange<size_t>(0, std::size(kSteps))](x));
  }
  std::vector<Tensor> results;  // some of the values, so that others are intermediates
  for (size_t i = 0; i < values.size(); i += 2) results.push_back(values[values.size() - 1 - i].tensor);
  eval(results);
  for (const Value& value : values) {
    RC_ASSERT(value.tensor.shape() == Shape(value.shape));
    RC_ASSERT(to_host<float>(value.tensor) == value.data);
  }
}

// Each reshape of a transposed tensor needs a copy, which the plan adds to its values while it reads their shapes.
TEST(Eval, ManyViewsInOnePlanNeedCopies) {
  std::vector<float> numbers(6);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  Tensor x = device()->upload(DType::f32, Shape{2, 3}, numbers.data());
  for (int i = 0; i < 30; ++i) {  // [2, 3] as columns [3, 2], read again as [2, 3]
    x = reshape(permute(x, {1, 0}), Shape{2, 3});
    std::vector<float> transposed(6);
    for (size_t k = 0; k < 6; ++k) transposed[k] = numbers[k % 2 * 3 + k / 2];
    numbers = transposed;
  }
  EXPECT_EQ(to_host<float>(x), numbers);
}

TEST(Eval, AFewOpsAreRunAtOnceWhenTheirPlanIsKnown) {
  if (std::string_view(device()->facts().id) != "cpu") GTEST_SKIP() << "small graphs are known for the CPU's kernels";
  const std::vector<float> numbers = {1, 2, 3};
  const Tensor x = device()->upload(DType::f32, Shape{3}, numbers.data());
  const Tensor y = device()->upload(DType::f32, Shape{3}, numbers.data());
  const Tensor first = x * x;
  EXPECT_FALSE(try_eval_inline(first)) << "nothing is planned yet";
  EXPECT_EQ(to_host<float>(first), (std::vector<float>{1, 4, 9}));
  const size_t plans = plans_made(*device());
  const Tensor again = y * y;
  EXPECT_TRUE(try_eval_inline(again));
  EXPECT_TRUE(again.has_value());
  EXPECT_EQ(to_host<float>(again), (std::vector<float>{1, 4, 9}));
  EXPECT_EQ(plans_made(*device()), plans);
  EXPECT_FALSE(try_eval_inline(x * y)) << "two tensors are another plan than one twice";
  EXPECT_FALSE(try_eval_inline((x * x) * x)) << "two ops, which are another plan than one";
  EXPECT_FALSE(try_eval_inline(x)) << "a value";
  const auto several = [](const Tensor& a, const Tensor& b) {
    const Tensor shared = a * b;
    return sum(reshape(shared + exp(shared - shared), Shape{1, 3}) - b, kAllAxes);
  };
  EXPECT_EQ(to_host<float>(several(x, y)), std::vector<float>{14 + 3 - 6});
  const Tensor sums = several(y, x);
  EXPECT_TRUE(try_eval_inline(sums));
  EXPECT_EQ(to_host<float>(sums), std::vector<float>{14 + 3 - 6});
  EXPECT_FALSE(try_eval_inline(several(x, x))) << "one tensor twice";
  Tensor chain = x;
  for (int i = 0; i < 513; ++i) chain = chain + y;
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(try_eval_inline(chain)) << "too many";
  for (int i = 0; i < 2; ++i) {
    const Tensor large = iota(device(), 100'000, DType::f32);
    EXPECT_FALSE(try_eval_inline(large));
    eval(std::span(&large, 1));
  }
}

TEST(Eval, ThreadsShareADeviceAndItsPlans) {
  const std::vector<float> ones(1000, 1);
  const Tensor x = device()->upload(DType::f32, Shape{1000}, ones.data());
  const size_t before = plans_made(*device());
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) wrong += to_host<float>(x + x * x) != std::vector<float>(1000, 2);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(plans_made(*device()), before + 1);
}

}  // namespace
}  // namespace gabbro
