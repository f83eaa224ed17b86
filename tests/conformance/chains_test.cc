// Elementwise ops that use each other's results, in one launch where the device can do that, against the same ops
// evaluated one by one on the same device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include <fmt/format.h>

#include "src/backend/registry.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"
#include "tests/conformance/op_cases.h"
#include "tests/rounding.h"

namespace gabbro::conformance {
namespace {

const std::shared_ptr<Device>& device() {
  static const std::shared_ptr<Device> opened = open_device("auto", {.threads = 2});
  return opened;
}

void eval_one(const Tensor& x) { eval(std::span(&x, 1)); }

// Layout of an input; all have one shape.
Tensor input(Maker& m, const Shape& shape, int kind) {
  const int rank = shape.rank();
  std::vector<int64_t> lengths;
  for (int axis = 0; axis < rank; ++axis) lengths.push_back(shape[axis]);
  switch (kind) {
    case 0:
      return m.normal(shape);
    case 1:  // one number
      return broadcast_to(reshape(m.normal(Shape{1}), Shape{}), shape);
    case 2: {  // along the last axis alone
      return broadcast_to(m.normal(Shape{lengths.back()}), shape);
    }
    case 3: {  // transposed
      std::ranges::reverse(lengths);
      std::vector<int> axes;
      for (int axis = rank; axis-- > 0;) axes.push_back(axis);
      return permute(m.normal(Shape(lengths)), axes);
    }
    default: {  // a part, whose rows begin at odd places
      lengths.back() += 3;
      return slice(m.normal(Shape(lengths)), rank - 1, 1, shape[rank - 1]);
    }
  }
}

struct Chain {
  std::vector<Tensor> values;  // inputs and what was computed, all of one shape
  std::vector<Tensor> flags;   // bool
};

// Adds one step to the chain. f16 and bf16 have no step whose result jumps: rounding could decide it otherwise in f32.
void add_step(Chain& chain, std::mt19937& random, DType dtype, size_t inputs) {
  const auto pick = [&](const std::vector<Tensor>& from, size_t count) { return from[random() % count]; };
  const Tensor a = pick(chain.values, chain.values.size()), b = pick(chain.values, chain.values.size());
  const Tensor i = pick(chain.values, inputs), j = pick(chain.values, inputs);
  switch (random() % 14) {
    case 0:
      return chain.values.push_back(a + b);
    case 1:
      return chain.values.push_back(a - b);
    case 2:
      return chain.values.push_back(tanh(a * b));
    case 3:
      return chain.values.push_back(maximum(a, b));
    case 4:
      return chain.values.push_back(minimum(neg(a), b));
    case 5:
      return chain.values.push_back(sigmoid(a));
    case 6:
      return chain.values.push_back(gelu(a));
    case 7:
      return chain.flags.push_back(less(i, j));
    case 8:
      return chain.flags.push_back(greater_equal(i, weak(i, 0.25)));
    case 9:
      return chain.values.push_back(chain.flags.empty() ? abs(a) : where(pick(chain.flags, chain.flags.size()), a, b));
    case 10:
      return chain.values.push_back(clamp(a, -0.5, 1.5));
    case 11:  // through integers: exact, of inputs
      return chain.values.push_back(cast(cast(i * weak(i, 4), DType::i32) + weak(cast(j, DType::i32), 3), dtype));
    case 12:
      return chain.values.push_back(dtype == DType::f32 ? cast(cast(a, DType::bf16), dtype)
                                                        : cast(cast(a, DType::f32), dtype));
    default:
      return chain.values.push_back(a * weak(a, 0.5) + weak(a, 1));
  }
}

std::vector<float> on_host(const Tensor& x) { return to_host<float>(cast(x, DType::f32)); }

class Chains : public testing::TestWithParam<DType> {};

TEST_P(Chains, EqualTheirStepsOneByOne) {
  const DType dtype = GetParam();
  const double epsilon = dtype == DType::f32 ? 0x1p-20 : dtype == DType::f16 ? 0x1p-9 : 0x1p-6;
  const Shape shapes[] = {Shape{1}, Shape{7}, Shape{3, 5}, Shape{64, 65}, Shape{2, 3, 1031}, Shape{4, 1, 33, 8}};
  // The simulator's kernels are compiled by the system's compiler, which takes long.
  const uint32_t seeds = device()->facts().architecture[0] == 's' ? 3 : 40;
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    std::mt19937 random(seed);
    Maker m(device(), seed);
    const Shape& shape = shapes[seed % std::size(shapes)];
    const size_t inputs = 1 + random() % 5, steps = 2 + random() % 12;
    std::vector<Tensor> leaves;
    for (size_t i = 0; i < inputs; ++i) {
      leaves.push_back(cast(input(m, shape, static_cast<int>(random() % 5)), dtype));
      if (i % 2 == 0) eval_one(leaves.back());
    }
    const auto run = [&](bool together) {
      std::mt19937 same(seed + 1);
      Chain chain{leaves, {}};
      for (size_t i = 0; i < steps; ++i) {
        add_step(chain, same, dtype, inputs);
        if (!together) {
          eval_one(chain.values.back());
          if (!chain.flags.empty()) eval_one(chain.flags.back());
        }
      }
      // Some of what is on the way is wanted too, and some is used by what is not elementwise.
      std::vector<Tensor> wanted = {chain.values.back(), sum(chain.values[chain.values.size() / 2], kAllAxes)};
      if (seed % 3 == 0) wanted.push_back(chain.values[chain.values.size() / 3]);
      if (seed % 3 == 1 && !chain.flags.empty()) wanted.push_back(chain.flags.back());
      if (together) eval(wanted);
      std::vector<std::vector<float>> results;
      for (const Tensor& x : wanted) results.push_back(on_host(x));
      return results;
    };
    const auto expected = run(false), found = run(true);
    for (size_t k = 0; k < expected.size(); ++k) {
      double magnitude = 1;
      for (const float x : expected[k]) magnitude = std::max(magnitude, std::fabs(static_cast<double>(x)));
      for (size_t n = 0; n < expected[k].size(); ++n) {
        ASSERT_NEAR(found[k][n], expected[k][n], epsilon * static_cast<double>(steps) * magnitude)
            << fmt::format("seed {}, shape {}, result {}, element {}", seed, shape.to_string(), k, n);
      }
    }
  }
}

// Rows of whole packs, whose columns' numbers, parts and turned ones may be moved a pack at a time or not; and the same
// with an address, or a length, that is not a multiple of a pack.
TEST_P(Chains, OfInputsWithUnusualLayouts) {
  const DType dtype = GetParam();
  Maker m(device(), 9);
  const auto kept = [&](const Tensor& x) {
    const Tensor y = cast(x, dtype);
    eval_one(y);
    return y;
  };
  for (const int64_t columns : {16, 12, 5}) {
    const Shape shape{3, 2, columns};
    const Tensor plain = kept(m.normal(shape)), wide = kept(m.normal(Shape{3, 2, 32}));
    const Tensor row = broadcast_to(kept(m.normal(Shape{columns})), shape);
    const Tensor column = broadcast_to(kept(m.normal(Shape{3, 1, 1})), shape);
    const Tensor transposed = permute(kept(m.normal(Shape{columns, 2, 3})), {2, 1, 0});
    const Tensor number = broadcast_to(kept(m.normal(Shape{1, 1, 1})), shape);
    for (const int64_t begin : {8, 3}) {
      const Tensor part = slice(wide, 2, begin, columns);
      const auto step = [&](bool together, const Tensor& x) {
        if (!together) eval_one(x);
        return x;
      };
      // Products and sums of values of up to 4 deviations: (4·4 + 4 + 4) · (4 + 4) at most.
      constexpr int64_t kSteps = 5;
      constexpr double kLargest = 24 * 8;
      const auto run = [&](bool together, const Tensor& last) {
        const Tensor scaled = step(together, step(together, plain * row) + column);
        return on_host(step(together, step(together, scaled - part) * step(together, last + number)));
      };
      for (const Tensor& last : {plain, transposed}) {
        const std::vector<float> expected = run(false, last), found = run(true, last);
        for (size_t n = 0; n < expected.size(); ++n) {
          ASSERT_NEAR(found[n], expected[n], test::rounding_bound(kSteps, dtype) * kLargest)
              << columns << " columns from " << begin << ", element " << n;
        }
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Dtypes, Chains, testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& dtype) { return std::string(dtype_name(dtype.param)); });

// As full() has it, also where a constant is a part of the launch.
TEST(ChainConstants, AreHeldWithinTheirType) {
  Maker m(device(), 1);
  for (const DType dtype : {DType::u8, DType::i8, DType::i16, DType::i32}) {
    const Tensor x = cast(m.ints(Shape{8}, [](int64_t i) { return static_cast<int32_t>(i); }), dtype);
    for (const double number : {-1e30, -70000.0, -300.0, -1.0, 2.75, 100.0, 300.0, 70000.0, 1e30}) {
      const Tensor constant = full(device(), Shape{}, number, dtype);
      const Tensor together = maximum(x, constant) + minimum(x, constant);
      eval_one(together);
      const Tensor alone = full(device(), Shape{}, number, dtype);
      eval_one(alone);
      EXPECT_EQ(on_host(together), on_host(maximum(x, alone) + minimum(x, alone)))
          << dtype_name(dtype) << ", " << number;
    }
  }
}

size_t launches(const std::function<std::vector<Tensor>()>& f) { return Compiled(f).plan().steps().size(); }

// Whether the device fuses a chain of two.
bool fuses() {
  Maker m(device(), 1);
  const Tensor x = m.normal(Shape{64});
  return launches([&] { return std::vector{exp(neg(x))}; }) == 1;
}

TEST(ChainLaunches, OneForEachGroup) {
  if (!fuses()) GTEST_SKIP() << device()->facts().id << " has no compiler of kernels";
  Maker m(device(), 1);
  const Tensor x = m.normal(Shape{8, 64}), y = m.normal(Shape{8, 64}), bias = m.normal(Shape{64});
  EXPECT_EQ(launches([&] { return std::vector{relu((x * y + x) * y - x)}; }), 1U);
  EXPECT_EQ(launches([&] { return std::vector{relu(x + y), tanh(x + y)}; }), 1U) << "two results";
  EXPECT_EQ(launches([&] { return std::vector{gelu(x * y + bias)}; }), 1U) << "with a broadcast input";
  EXPECT_EQ(launches([&] { return std::vector{softmax(x * y + x) * y + x}; }), 3U) << "before and after a kernel";
  EXPECT_EQ(launches([&] {
              const Tensor shared = exp(x + y);
              return std::vector{shared / sum(shared, -1, kKeepDims)};
            }),
            3U)
      << "what is summed has to be there before";
  EXPECT_EQ(launches([&] { return std::vector{exp(x) + y, exp(x) * y}; }), 1U) << "exp is computed once";
}

}  // namespace
}  // namespace gabbro::conformance
