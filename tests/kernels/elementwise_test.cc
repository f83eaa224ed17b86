// Elementwise ops against the C library in double precision, for shapes that are strided, offset, broadcast and odd.
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/common/kernel_test.h"
#include "src/ops/cases/cases.h"

namespace gabbro::kernel_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct View {
  Shape shape;
  Shape strides;
  int64_t offset;
  int64_t span;
};

// Contiguous ones of odd sizes, a transposed one, one broadcast along its middle, one with gaps and rank 6.
const std::vector<View>& view_cases() {
  static const std::vector<View> kCases = {
      {{0}, {1}, 0, 1},
      {{1}, {1}, 3, 4},
      {{15}, {1}, 1, 16},
      {{16}, {1}, 0, 16},
      {{17}, {1}, 5, 22},
      {{63}, {1}, 0, 63},
      {{10007}, {1}, 0, 10007},
      {{65}, {3}, 2, 200},
      {{7, 13}, {1, 7}, 0, 91},
      {{35, 70}, {1, 40}, 3, 2798},
      {{2, 17, 3, 16}, {1000, 1, 320, 20}, 0, 2000},
      {{5, 4, 17}, {17, 0, 1}, 0, 85},
      {{3, 19}, {40, 2}, 1, 160},
      {{2, 3, 1, 2, 5, 3}, {400, 100, 7, 40, 6, 2}, 3, 1000},
      {{4, 0, 3}, {3, 3, 1}, 0, 12},
      {{}, {}, 2, 3},
      {{6, 9}, {0, 0}, 0, 1},
      // One row for all, a number for each row, and rows with gaps, in whole 16-byte vectors.
      {{5, 16}, {0, 1}, 0, 16},
      {{5, 16}, {1, 0}, 0, 5},
      {{5, 16}, {24, 1}, 4, 120},
  };
  return kCases;
}

// Functions with a kernel on every backend.
std::vector<cases::Unary> unary_cases() {
  std::vector<cases::Unary> found = cases::unary_functions();
  std::erase_if(found, [](const cases::Unary& f) { return !f.kernel; });
  return found;
}

std::vector<cases::Binary> binary_cases() {
  std::vector<cases::Binary> found = cases::binary_functions();
  std::erase_if(found, [](const cases::Binary& f) { return !f.ulps; });
  return found;
}

TEST(Elementwise, Unary) {
  std::mt19937 generator(1);
  for (const cases::Unary& c : unary_cases()) {
    for (const View& view : view_cases()) {
      SCOPED_TRACE(std::string(c.name) + " of " + ::testing::PrintToString(view.shape));
      Tensor x(DType::f32, view.shape, view.strides, view.offset, view.span);
      x.random(generator, c.kernel->low, c.kernel->high);
      std::vector<double> expected;
      for (const float value : x.values<float>()) expected.push_back(c.reference(value));
      for_each_target([&](const Target& target) {
        Tensor y(DType::f32, view.shape);
        target.run({c.op->name, {&x}, {&y}, {}});
        expect_close(y.values<float>(), expected, [&](size_t i) {
          return c.kernel->ulps * kEpsilon * std::max({std::abs(expected[i]), c.kernel->floor, 1e-38});
        });
      });
    }
  }
}

TEST(Elementwise, UnaryOfWhatIsNotFinite) {
  const std::vector<float> values = {kNan, kInfinity, -kInfinity, 0.0f, -0.0f, 1e30f, -1e30f, 1e-42f};
  for (const cases::Unary& c : unary_cases()) {
    SCOPED_TRACE(c.name);
    Tensor x(DType::f32, {static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), x.data<float>());
    for_each_target([&](const Target& target) {
      Tensor y(DType::f32, {x.count()});
      target.run({c.op->name, {&x}, {&y}, {}});
      for (size_t i = 0; i < values.size(); ++i) {
        const double expected = c.reference(values[i]);
        const float rounded = static_cast<float>(expected);
        const float actual = y.at<float>(static_cast<int64_t>(i));
        EXPECT_EQ(std::isnan(actual), std::isnan(expected)) << values[i] << " gives " << actual;
        if (std::isnan(expected)) continue;
        if (std::isinf(rounded)) {
          EXPECT_EQ(actual, rounded) << "of " << values[i];
        } else {
          EXPECT_NEAR(actual, expected, 4 * kEpsilon * std::max(1.0, std::abs(expected))) << "of " << values[i];
        }
      }
    });
  }
}

// As the Python array API standard has them.
// The ends of the normal distribution; 0 times an infinity is NaN, as in PyTorch.
TEST(Elementwise, GeluFarOut) {
  const std::vector<std::pair<float, float>> values = {{kNan, kNan},       {kInfinity, kInfinity},
                                                       {-kInfinity, kNan}, {1e30f, 1e30f},
                                                       {100, 100},         {-100, 0},
                                                       {-1e30f, 0},        {-3e38f, 0},
                                                       {-14.6f, 0}};
  for (const char* op : {"gelu", "gelu_tanh"}) {
    Tensor x(DType::f32, {static_cast<int64_t>(values.size())});
    for (size_t i = 0; i < values.size(); ++i) x.data<float>()[i] = values[i].first;
    for_each_target([&](const Target& target) {
      Tensor y(DType::f32, {x.count()});
      target.run({op, {&x}, {&y}, {}});
      for (size_t i = 0; i < values.size(); ++i) {
        const float actual = y.at<float>(static_cast<int64_t>(i)), expected = values[i].second;
        SCOPED_TRACE(std::string(op) + " of " + std::to_string(values[i].first) + " gives " + std::to_string(actual));
        EXPECT_EQ(std::isnan(actual), std::isnan(expected));
        if (std::isfinite(expected)) {
          EXPECT_NEAR(actual, expected, 1e-7 * std::abs(expected) + 1e-30);
        } else if (!std::isnan(expected)) {
          EXPECT_EQ(actual, expected);
        }
      }
    });
  }
}

TEST(Elementwise, ZerosHaveTheirSigns) {
  struct Zero {
    const char* op;
    float a, b;
    bool negative;
  };
  const std::vector<Zero> examples = {
      {"sign", 0.0f, 0, false},         {"sign", -0.0f, 0, false},        {"tanh", -0.0f, 0, true},
      {"tanh", 0.0f, 0, false},         {"sin", -0.0f, 0, true},          {"erf", -0.0f, 0, true},
      {"ceil", -0.5f, 0, true},         {"round", -0.5f, 0, true},        {"trunc", -0.5f, 0, true},
      {"remainder", 0.0f, 3, false},    {"remainder", -0.0f, 3, false},   {"remainder", 0.0f, -3, true},
      {"remainder", -6.0f, 3, false},   {"remainder", 6.0f, -3, true},    {"floor_divide", -0.0f, 3, true},
      {"floor_divide", 0.0f, 3, false}, {"floor_divide", 0.0f, -3, true},
  };
  for_each_target([&](const Target& target) {
    for (const Zero& e : examples) {
      Tensor a(DType::f32, {1}), b(DType::f32, {1}), y(DType::f32, {1});
      a.at<float>(0) = e.a;
      b.at<float>(0) = e.b;
      target.run({e.op, e.b == 0 ? std::vector<Tensor*>{&a} : std::vector<Tensor*>{&a, &b}, {&y}, {}});
      EXPECT_EQ(y.at<float>(0), 0) << e.op << " " << e.a << " " << e.b;
      EXPECT_EQ(std::signbit(y.at<float>(0)), e.negative) << e.op << " " << e.a << " " << e.b;
    }
  });
}

// The first input takes each view, the second is contiguous, or one number for all.
TEST(Elementwise, Binary) {
  std::mt19937 generator(2);
  std::uniform_real_distribution<float> uniform(0.5f, 3);
  for (const cases::Binary& c : binary_cases()) {
    for (const View& view : view_cases()) {
      for (const bool broadcast : {false, true}) {
        SCOPED_TRACE(std::string(c.name) + " of " + ::testing::PrintToString(view.shape));
        Tensor a(DType::f32, view.shape, view.strides, view.offset, view.span);
        Tensor b(DType::f32, view.shape, broadcast ? Shape(view.shape.size(), 0) : Tensor::contiguous(view.shape), 0,
                 broadcast ? 1 : Tensor::product(view.shape));
        int turn = 0;
        const auto next = [&] { return ++turn % 11 == 0 ? kNan : turn % 3 == 0 ? 1.0f : uniform(generator); };
        a.fill<float>(next);
        turn = broadcast ? 0 : 1;
        b.fill<float>(next);
        std::vector<double> expected;
        for (int64_t i = 0; i < a.count(); ++i) expected.push_back(c.reference(a.at<float>(i), b.at<float>(i)));
        const bool comparison = c.name[2] == '\0';
        for_each_target([&](const Target& target) {
          Tensor y(comparison ? DType::boolean : DType::f32, view.shape);
          target.run({c.op->name, {&a, &b}, {&y}, {}});
          std::vector<float> actual;
          for (int64_t i = 0; i < y.count(); ++i) actual.push_back(comparison ? y.at<uint8_t>(i) : y.at<float>(i));
          expect_close(actual, expected, [&](size_t i) { return *c.ulps * kEpsilon * std::abs(expected[i]) + 1e-45; });
        });
      }
    }
  }
}

TEST(Elementwise, Integers) {
  constexpr int32_t kLow = std::numeric_limits<int32_t>::min();
  constexpr int32_t kHigh = std::numeric_limits<int32_t>::max();
  struct Example {
    const char* op;
    int32_t a, b, result;
  };
  const std::vector<Example> examples = {
      {"add", kHigh, 1, kLow},
      {"sub", kLow, 1, kHigh},
      {"mul", 65536, 65536, 0},
      {"mul", -3, 7, -21},
      {"div", 7, -2, -3},
      {"div", 5, 0, 0},
      {"div", kLow, -1, kLow},
      {"pow", 3, 4, 81},
      {"pow", -2, 31, kLow},
      {"pow", 5, 0, 1},
      {"pow", 2, -1, 0},
      {"pow", 1, -5, 1},
      {"pow", -1, -5, -1},
      {"pow", -1, -4, 1},
      {"maximum", -4, 3, 3},
      {"maximum", 4, 3, 4},
      {"minimum", -4, 3, -4},
      {"minimum", 4, 3, 3},
      {"eq", 4, 4, 1},
      {"lt", -1, 0, 1},
      {"ge", kLow, kHigh, 0},
      {"logical_and", 2, 1, 1},
      {"logical_and", 2, 0, 0},
      {"logical_or", 0, 3, 1},
      {"logical_or", 0, 0, 0},
      {"floor_divide", -7, 2, -4},
      {"floor_divide", 7, -2, -4},
      {"floor_divide", -8, 2, -4},
      {"floor_divide", kLow, -1, kLow},
      {"floor_divide", 3, 0, 0},
      {"remainder", -7, 2, 1},
      {"remainder", 7, -2, -1},
      {"remainder", 3, 0, 0},
      {"remainder", kLow, -1, 0},
      {"bitwise_and", 12, 10, 8},
      {"bitwise_or", 12, 10, 14},
      {"bitwise_xor", 12, -1, -13},
      {"left_shift", 1, 31, kLow},
      {"left_shift", 1, 32, 0},
      {"left_shift", 1, -1, 0},
      {"right_shift", -8, 1, -4},
      {"right_shift", -8, 40, -1},
      {"right_shift", 8, 40, 0},
  };
  for_each_target([&](const Target& target) {
    for (const Example& e : examples) {
      const bool logical = std::string_view(e.op).starts_with("logical");
      const bool comparison = logical || std::string_view(e.op).size() == 2;
      Tensor a(logical ? DType::boolean : DType::i32, {1});
      Tensor b(logical ? DType::boolean : DType::i32, {1});
      Tensor y(comparison ? DType::boolean : DType::i32, {1});
      if (logical) {
        a.at<uint8_t>(0) = static_cast<uint8_t>(e.a);
        b.at<uint8_t>(0) = static_cast<uint8_t>(e.b);
      } else {
        a.at<int32_t>(0) = e.a;
        b.at<int32_t>(0) = e.b;
      }
      target.run({e.op, {&a, &b}, {&y}, {}});
      EXPECT_EQ(comparison ? y.at<uint8_t>(0) : y.at<int32_t>(0), e.result) << e.op << " " << e.a << " " << e.b;
    }
  });
}

template <class T>
void check_moves(DType dtype) {
  std::mt19937 generator(3);
  for (const View& view : view_cases()) {
    SCOPED_TRACE(std::string(dtype_name(dtype)) + " " + ::testing::PrintToString(view.shape));
    Tensor x(dtype, view.shape, view.strides, view.offset, view.span);
    Tensor other(dtype, view.shape);
    Tensor condition(DType::boolean, view.shape);
    x.fill<T>([&] { return static_cast<T>(generator()); });
    other.fill<T>([&] { return static_cast<T>(generator()); });
    condition.fill<uint8_t>([&] { return static_cast<uint8_t>(generator() % 3); });
    for_each_target([&](const Target& target) {
      Tensor y(dtype, view.shape);
      target.run({"copy", {&x}, {&y}, {}});
      EXPECT_EQ(y.values<T>(), x.values<T>());
      target.run({"where", {&condition, &x, &other}, {&y}, {}});
      for (int64_t i = 0; i < y.count(); ++i) {
        ASSERT_EQ(y.at<T>(i), condition.at<uint8_t>(i) != 0 ? x.at<T>(i) : other.at<T>(i)) << i;
      }
    });
  }
}

TEST(Elementwise, CopyAndWhereOfEachSize) {
  check_moves<uint8_t>(DType::u8);
  check_moves<uint16_t>(DType::bf16);
  check_moves<uint32_t>(DType::i32);
  check_moves<uint64_t>(DType::f64);
}

TEST(Elementwise, RefusesWhatItCannotDo) {
  Tensor f(DType::f32, {4});
  Tensor g(DType::f32, {5});
  Tensor h(DType::f64, {4});
  Tensor half(DType::f16, {4});
  Tensor i(DType::i32, {4});
  Tensor b(DType::boolean, {4});
  Tensor q(DType::q8_0, {32});
  Tensor gaps(DType::f32, {4}, {2}, 0, 8);
  for_each_target([&](const Target& target) {
    EXPECT_FALSE(target.takes({"neg", {&f}, {&g}, {}}));
    EXPECT_FALSE(target.takes({"neg", {&f}, {&gaps}, {}}));
    EXPECT_FALSE(target.takes({"neg", {&h}, {&f}, {}}));
    EXPECT_FALSE(target.takes({"neg", {&half}, {&f}, {}}));
    EXPECT_FALSE(target.takes({"neg", {&i}, {&i}, {}}));
    EXPECT_FALSE(target.takes({"neg", {&f}, {&i}, {}}));
    EXPECT_FALSE(target.takes({"neg", {&f, &f}, {&f}, {}}));
    EXPECT_FALSE(target.takes({"add", {&f, &i}, {&f}, {}}));
    EXPECT_FALSE(target.takes({"add", {&h, &f}, {&h}, {}}));
    EXPECT_FALSE(target.takes({"add", {&half, &half}, {&f}, {}}));
    EXPECT_FALSE(target.takes({"add", {&half, &f}, {&half}, {}}));
    EXPECT_FALSE(target.takes({"clamp", {&f, &f, &i}, {&f}, {}}));
    EXPECT_FALSE(target.takes({"lt", {&f, &f}, {&f}, {}}));
    EXPECT_FALSE(target.takes({"copy", {&f}, {&i}, {}}));
    EXPECT_FALSE(target.takes({"cast", {&q}, {&q}, {}}));
    EXPECT_FALSE(target.takes({"where", {&f, &f, &f}, {&f}, {}}));
    EXPECT_FALSE(target.takes({"where", {&b, &f, &i}, {&f}, {}}));
  });
}

}  // namespace
}  // namespace gabbro::kernel_test
