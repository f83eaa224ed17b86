#include "src/formats/quant/random_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
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
  for (int i = static_cast<int>(DType::q4_0); i < kDTypeCount; ++i) all.push_back(static_cast<DType>(i));
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
  // The scale is measured on 64 blocks, and varies by half from block to block, which adds 4 % to the deviation.
  EXPECT_NEAR(sum / kElements, 0, 0.15 * kDeviation);
  EXPECT_NEAR(std::sqrt(squares / kElements), kDeviation, 0.25 * kDeviation);
}

TEST_P(RandomBlocks, HaveAllCodesAndFollowTheSeed) {
  const std::vector<std::byte> bytes = fill(1);
  EXPECT_EQ(bytes, fill(1));
  EXPECT_NE(bytes, fill(2));
  if (!is_quantized(GetParam())) return;
  const QuantFormat& format = quant_format(GetParam());
  const DTypeInfo info = dtype_info(GetParam());
  std::set<int> codes, scales;
  for (size_t block = 0; block < bytes.size(); block += info.block_bytes) {
    DecodedBlock decoded;
    format.decode(bytes.data() + block, decoded);
    codes.insert(decoded.codes, decoded.codes + info.block_elements);
    scales.insert(static_cast<int>(1e6f * decoded.scale / kDeviation));
  }
  EXPECT_EQ(codes.size(), size_t{1} << format.bits);
  EXPECT_GE(scales.size(), 8u);
}

TEST(RandomBlocksOf, ATypeThatWeightsDoNotHave) {
  std::vector<std::byte> bytes(64);
  EXPECT_THROW(fill_random(DType::i32, bytes, kDeviation, 1), Error);
}

}  // namespace
}  // namespace gabbro
