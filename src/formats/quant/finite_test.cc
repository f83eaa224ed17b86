#include "src/formats/quant/finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "src/formats/quant/quant.h"

namespace gabbro {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<DType> encoded_formats() {
  std::vector<DType> all = {DType::f16, DType::bf16};
  for (int i = kFirstQuantized; i < kDTypeCount; ++i) {
    if (quant_format(static_cast<DType>(i)).encode != nullptr) all.push_back(static_cast<DType>(i));
  }
  return all;
}

std::vector<float> random_values(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<std::byte> encode(DType dtype, const std::vector<float>& values) {
  std::vector<std::byte> bytes(dtype_bytes(dtype, values.size()));
  quantize_row(dtype, values.data(), bytes.data(), std::ssize(values));
  return bytes;
}

class Overflow : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Formats, Overflow, testing::ValuesIn(encoded_formats()),
                         [](const auto& instance) { return std::string(dtype_name(instance.param)); });

// A power of two more in all values is one more in all decoded values, unless the format cannot hold them.
TEST_P(Overflow, IsFoundWhereScalingValuesGivesOthers) {
  constexpr int64_t kCount = 512;
  const std::vector<float> values = random_values(kCount, 5);
  const auto decode = [&](const std::vector<std::byte>& bytes) {
    std::vector<float> out(kCount);
    dequantize_row(GetParam(), bytes.data(), out.data(), kCount);
    return out;
  };
  const std::vector<float> expected = decode(encode(GetParam(), values));
  bool overflowed = false;
  for (int exponent = 1; exponent < 125; ++exponent) {
    std::vector<float> scaled = values;
    for (float& value : scaled) value = std::ldexp(value, exponent);
    const std::vector<std::byte> bytes = encode(GetParam(), scaled);
    const std::vector<float> found = decode(bytes);
    bool equal = true;
    for (size_t i = 0; i < found.size(); ++i)
      equal = equal && std::fabs(std::ldexp(found[i], -exponent) - expected[i]) <= 0x1p-9f * std::fabs(expected[i]);
    const auto overflow = find_overflow(GetParam(), scaled, bytes.data());
    EXPECT_TRUE(equal || overflow) << "2^" << exponent;
    if (overflow) {
      EXPECT_EQ(overflow->value, scaled[static_cast<size_t>(overflow->index)]);
      EXPECT_GT(std::fabs(overflow->value), 2000);
    }
    overflowed = overflowed || overflow.has_value();
  }
  EXPECT_EQ(overflowed, GetParam() != DType::bf16);
}

TEST_P(Overflow, OfOneValueIsNamed) {
  std::vector<float> values = random_values(1024, 6);
  EXPECT_FALSE(find_overflow(GetParam(), values, encode(GetParam(), values).data()));
  values[700] = -3.39e38f;
  const auto found = find_overflow(GetParam(), values, encode(GetParam(), values).data());
  ASSERT_EQ(found.has_value(), GetParam() != DType::bf16);
  if (!found) return;
  EXPECT_EQ(found->index, 700);
  EXPECT_EQ(found->value, -3.39e38f);
}

TEST(Overflow, OfBfloatIsAboveItsLargest) {
  const std::vector<float> values = {1, 3.4e38f};
  const auto found = find_overflow(DType::bf16, values, encode(DType::bf16, values).data());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->index, 1);
}

TEST(NonFinite, ValuesAreFoundInAllFormats) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const float value : {NAN, kInfinity, -kInfinity}) {
      std::vector<float> values = random_values(5000, 7);
      EXPECT_FALSE(find_non_finite(dtype, encode(dtype, values).data(), 5000));
      values[4321] = values[4567] = value;
      const auto found = find_non_finite(dtype, encode(dtype, values).data(), 5000);
      ASSERT_TRUE(found) << dtype_name(dtype);
      EXPECT_EQ(found->index, 4321);
      EXPECT_TRUE(found->value == value || (std::isnan(found->value) && std::isnan(value)));
    }
  }
  std::vector<std::byte> blocks = encode(DType::q8_0, random_values(32 * 2000, 8));
  blocks[34 * 1500 + 1] = std::byte{0x7c};  // the scale's exponent
  const auto found = find_non_finite(DType::q8_0, blocks.data(), 32 * 2000);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->index, 32 * 1500);
  const double doubles[] = {1e300, 2, NAN};  // the first is a number
  EXPECT_EQ(find_non_finite(DType::f64, std::as_bytes(std::span(doubles)).data(), 3)->index, 2);
}

TEST(NonFinite, FloatsOfEightBitsAreFound) {
  const auto index = [](const char* format, std::vector<uint8_t> codes) {
    const auto found = find_non_finite_f8(format, std::as_bytes(std::span(codes)));
    return found ? found->index : -1;
  };
  EXPECT_EQ(index("F8_E4M3", {0, 0x7e, 0xff, 0x7f}), 2);
  EXPECT_EQ(index("F8_E4M3FNUZ", {0x7f, 0xff, 0x80}), 2);
  EXPECT_EQ(index("F8_E5M2", {0x7b, 0xfc}), 1);
  EXPECT_EQ(index("F8_E5M2FNUZ", {0x7f, 0x80}), 1);
  EXPECT_EQ(index("F8_E8M0", {0xfe, 0xff}), 1);
  EXPECT_EQ(index("U8", {0x7f, 0xff}), -1);
  const std::vector<uint8_t> infinite = {0xfc};
  EXPECT_EQ(find_non_finite_f8("F8_E5M2", std::as_bytes(std::span(infinite)))->value, -kInfinity);
}

TEST(NonFinite, PlacesAreIndicesOfTheShape) {
  const int64_t matrix[] = {3, 5}, vector[] = {7}, cube[] = {2, 3, 4};
  EXPECT_EQ(describe({13, 2.5f}, matrix), "2.5 at (2, 3)");
  EXPECT_EQ(describe({6, -kInfinity}, vector), "-inf at (6)");
  EXPECT_EQ(describe({23, NAN}, cube), "nan at (1, 2, 3)");
}

TEST(Farthest, IsTheLargestMagnitudeOfAnyLength) {
  for (int64_t count = 0; count < 40; ++count) {
    std::vector<float> values = random_values(count, static_cast<uint32_t>(count));
    float expected = 0;
    for (const float value : values) expected = std::max(expected, std::fabs(value));
    EXPECT_EQ(farthest(values), expected);
    if (count == 0) continue;
    values[static_cast<size_t>(count / 2)] = NAN;
    EXPECT_TRUE(std::isnan(farthest(values)));
  }
}

}  // namespace
}  // namespace gabbro
