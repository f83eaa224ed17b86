#include "src/base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace gabbro {
namespace {

// The compiler's own _Float16 is the independent reference.
TEST(Half, EveryBitPatternConvertsAsTheCompilerDoes) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float expected = static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(bits)));
    const float actual = half_bits_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(actual)) << bits;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(expected), std::bit_cast<uint32_t>(actual)) << bits;
      EXPECT_EQ(float_to_half_bits(actual), bits);
    }
  }
}

TEST(Half, RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0xfffff000u; bits += 1021) {  // a prime stride visits every exponent
    const float value = std::bit_cast<float>(bits);
    if (std::isnan(value)) continue;
    EXPECT_EQ(std::bit_cast<uint16_t>(static_cast<_Float16>(value)), float_to_half_bits(value)) << value;
  }
  EXPECT_TRUE(std::isnan(half_bits_to_float(float_to_half_bits(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(BFloat, RoundsToNearestEven) {
  EXPECT_EQ(float_to_bfloat_bits(1.0f), 0x3f80);
  EXPECT_EQ(float_to_bfloat_bits(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // tie to even
  EXPECT_EQ(float_to_bfloat_bits(std::bit_cast<float>(0x3f818000u)), 0x3f82);  // tie to even
  EXPECT_EQ(float_to_bfloat_bits(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_TRUE(std::isnan(bfloat_bits_to_float(float_to_bfloat_bits(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace gabbro
