// `cast` between all plain dtypes, and at the edges of their ranges.
#include <gtest/gtest.h>

#include <limits>

#include "backends/common/kernel_test.h"
#include "src/base/half.h"

namespace gabbro::kernel_test {
namespace {

constexpr double kInfinityF64 = std::numeric_limits<double>::infinity();
constexpr double kNanF64 = std::numeric_limits<double>::quiet_NaN();

double value_of(Tensor& t, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::f32:
      return t.at<float>(i);
    case DType::f16:
      return half_bits_to_float(t.at<uint16_t>(i));
    case DType::bf16:
      return bfloat_bits_to_float(t.at<uint16_t>(i));
    case DType::f64:
      return t.at<double>(i);
    case DType::i8:
      return t.at<int8_t>(i);
    case DType::u8:
      return t.at<uint8_t>(i);
    case DType::i16:
      return t.at<int16_t>(i);
    case DType::i32:
      return t.at<int32_t>(i);
    case DType::i64:
      return static_cast<double>(t.at<int64_t>(i));
    default:
      return t.at<uint8_t>(i) != 0 ? 1 : 0;
  }
}

constexpr DType kPlain[] = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8,
                            DType::u8,  DType::i16, DType::i32,  DType::i64, DType::boolean};

void set_value(Tensor& t, DType dtype, int64_t i, double value) {
  switch (dtype) {
    case DType::f32:
      t.at<float>(i) = static_cast<float>(value);
      return;
    case DType::f16:
      t.at<uint16_t>(i) = float_to_half_bits(static_cast<float>(value));
      return;
    case DType::bf16:
      t.at<uint16_t>(i) = float_to_bfloat_bits(static_cast<float>(value));
      return;
    case DType::f64:
      t.at<double>(i) = value;
      return;
    case DType::i8:
      t.at<int8_t>(i) = static_cast<int8_t>(value);
      return;
    case DType::u8:
      t.at<uint8_t>(i) = static_cast<uint8_t>(value);
      return;
    case DType::i16:
      t.at<int16_t>(i) = static_cast<int16_t>(value);
      return;
    case DType::i32:
      t.at<int32_t>(i) = static_cast<int32_t>(value);
      return;
    case DType::i64:
      t.at<int64_t>(i) = static_cast<int64_t>(value);
      return;
    default:
      t.at<uint8_t>(i) = value != 0 ? 1 : 0;
  }
}

// Small whole numbers go from any dtype to any other and stay unchanged.
TEST(Cast, SmallNumbersBetweenAllDtypes) {
  for (const DType from : kPlain) {
    for (const DType to : kPlain) {
      SCOPED_TRACE(std::string(dtype_name(from)) + " to " + std::string(dtype_name(to)));
      Tensor x(from, {5, 7}, {1, 5}, 2, 40);
      for (int64_t i = 0; i < 35; ++i) set_value(x, from, i, static_cast<double>(i % 4));
      for_each_target([&](const Target& target) {
        Tensor y(to, {5, 7});
        target.run({"cast", {&x}, {&y}, {}});
        const bool truth = from == DType::boolean || to == DType::boolean;
        for (int64_t i = 0; i < 35; ++i) {
          EXPECT_EQ(value_of(y, to, i), truth ? (i % 4 != 0) : static_cast<double>(i % 4)) << i;
        }
      });
    }
  }
}

TEST(Cast, Edges) {
  struct Example {
    DType from, to;
    double value, result;
  };
  const std::vector<Example> examples = {
      {DType::f32, DType::i32, -1.9, -1},
      {DType::f32, DType::i32, 3e9, 2147483647},
      {DType::f32, DType::i32, -3e9, -2147483648.0},
      {DType::f32, DType::i32, kNanF64, 0},
      {DType::f32, DType::u8, 300, 255},
      {DType::f32, DType::u8, -3, 0},
      {DType::f32, DType::u8, 255.5, 255},
      {DType::f32, DType::i8, 200, 127},
      {DType::f32, DType::i8, -128.9, -128},
      {DType::f64, DType::i64, -1e300, -9223372036854775808.0},
      {DType::f64, DType::i64, 1e300, 9223372036854775807.0},
      {DType::f16, DType::i16, kInfinityF64, 32767},
      {DType::i32, DType::u8, 257, 1},
      {DType::f32, DType::f16, 1e6, kInfinityF64},
      {DType::f32, DType::boolean, 0.25, 1},
      {DType::f32, DType::boolean, kNanF64, 1},
      {DType::f64, DType::f32, 0.5, 0.5},
  };
  for_each_target([&](const Target& target) {
    for (const Example& e : examples) {
      Tensor x(e.from, {1});
      Tensor y(e.to, {1});
      set_value(x, e.from, 0, e.value);
      target.run({"cast", {&x}, {&y}, {}});
      EXPECT_EQ(value_of(y, e.to, 0), e.result) << dtype_name(e.from) << " " << e.value << " to " << dtype_name(e.to);
    }
  });
}

}  // namespace
}  // namespace gabbro::kernel_test
