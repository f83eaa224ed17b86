#include "src/formats/quant/random_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <vector>

#include "src/base/error.h"
#include "src/formats/quant/finite.h"
#include "src/formats/quant/quant.h"

namespace gabbro {
namespace {

constexpr float kDeviation = 0.02f;

std::vector<DType> weight_formats() {
  std::vector<DType> all = {DType::f32, DType::f16, DType::bf16};
  for (int i = kFirstQuantized; i < kDTypeCount; ++i) all.push_back(static_cast<DType>(i));
  return all;
}

class RandomBlocks : public testing::TestWithParam<DType> {
 protected:
  static constexpr int64_t kElements = 1 << 16;

  std::vector<std::byte> fill(uint64_t seed) const {
    std::vector<std::byte> bytes(dtype_bytes(GetParam(), kElements));
    fill_random(GetParam(), bytes, kDeviation, seed);
    return bytes;
  }
  std::vector<float> values(const std::vector<std::byte>& bytes) const {
    std::vector<float> out(kElements);
    dequantize_row(GetParam(), bytes.data(), out.data(), kElements);
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(Formats, RandomBlocks, testing::ValuesIn(weight_formats()),
                         [](const auto& instance) { return std::string(dtype_name(instance.param)); });

TEST_P(RandomBlocks, AreFiniteWithTheMeanAndTheDeviationAskedFor) {
  const std::vector<std::byte> bytes = fill(1);
  EXPECT_TRUE(all_finite(GetParam(), bytes.data(), kElements));
  double sum = 0, squares = 0;
  for (const float value : values(bytes)) {
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  // The scale is measured on 512 blocks, and varies by half from block to block, which adds 4 % to the deviation.
  EXPECT_NEAR(sum / kElements, 0, 0.05 * kDeviation);
  EXPECT_NEAR(std::sqrt(squares / kElements), kDeviation, 0.25 * kDeviation);
}

TEST_P(RandomBlocks, HaveAllCodesAndFollowTheSeed) {
  const std::vector<std::byte> bytes = fill(1);
  EXPECT_EQ(bytes, fill(1));
  EXPECT_NE(bytes, fill(2));
  if (!is_quantized(GetParam())) return;
  const QuantFormat& format = quant_format(GetParam());
  const QuantTraits& traits = quant_traits(GetParam());
  if (format.decode == nullptr) return;
  std::set<int> codes, scales;
  for (size_t block = 0; block < bytes.size(); block += static_cast<size_t>(traits.block_bytes)) {
    DecodedBlock decoded;
    format.decode(bytes.data() + block, decoded);
    codes.insert(decoded.codes, decoded.codes + traits.block_elements);
    scales.insert(static_cast<int>(1e6f * decoded.scale / kDeviation));
  }
  // Formats with fewer levels leave codes out.
  EXPECT_GE(codes.size(), size_t{1} << (traits.bits - 1));
  EXPECT_LE(codes.size(), size_t{1} << traits.bits);
  EXPECT_GE(scales.size(), traits.scale == ScaleCode::kE8M0 ? 2u : 8u);
}

// The check reads the scales alone, and is right of any bits: one exponent of E8M0 in 85 may pass for infinite.
TEST_P(RandomBlocks, AreCheckedByTheirScales) {
  if (!is_quantized(GetParam())) return;
  const QuantTraits& traits = quant_traits(GetParam());
  std::mt19937 random(3);
  std::vector<std::byte> block(static_cast<size_t>(traits.block_bytes));
  std::vector<float> values(static_cast<size_t>(traits.block_elements));
  int fine = 0;
  for (int round = 0; round < 2000; ++round) {
    for (std::byte& byte : block) byte = static_cast<std::byte>(random());
    dequantize_row(GetParam(), block.data(), values.data(), traits.block_elements);
    const bool expected = std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
    const bool actual = all_finite(GetParam(), block.data(), traits.block_elements);
    if (traits.scale == ScaleCode::kE8M0 || traits.scale == ScaleCode::kF32) {
      EXPECT_LE(actual, expected);
    } else {
      EXPECT_EQ(actual, expected);
    }
    fine += actual;
  }
  EXPECT_GT(fine, 1800);
}

TEST(RandomBlocksOf, ATypeThatWeightsDoNotHave) {
  std::vector<std::byte> bytes(64);
  EXPECT_THROW(fill_random(DType::i32, bytes, kDeviation, 1), Error);
}

}  // namespace
}  // namespace gabbro
