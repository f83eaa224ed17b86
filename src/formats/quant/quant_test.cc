#include "src/formats/quant/quant.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "src/base/error.h"
#include "src/base/half.h"
#include "src/base/mapped_file.h"

namespace gabbro {
namespace {

std::string data_path(const std::string& name) {
  return std::string(GABBRO_SOURCE_DIR) + "/tests/data/formats/quant/" + name;
}

template <class T>
std::vector<T> load(const std::string& name) {
  const std::string bytes = read_file(data_path(name));
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<DType> quantized() {
  std::vector<DType> all;
  for (int i = kFirstQuantized; i < kDTypeCount; ++i) all.push_back(static_cast<DType>(i));
  return all;
}

class EveryFormat : public testing::TestWithParam<DType> {
 protected:
  const QuantFormat& format = quant_format(GetParam());
  const QuantTraits& traits = quant_traits(GetParam());
  const DTypeInfo info = dtype_info(GetParam());
  const std::string name{info.name};
};
INSTANTIATE_TEST_SUITE_P(Quant, EveryFormat, testing::ValuesIn(quantized()),
                         [](const auto& instance) { return std::string(dtype_name(instance.param)); });

// scale · sub_scale is exact (11 + 8 bits), so without a minimum a value is rounded once, in both. With a minimum each
// term is rounded, and their sum once more unless the compiler fuses them: expected and actual differ by at most
// 2 · 2⁻²⁴ · (|a| + |b|).
TEST_P(EveryFormat, DequantizesAsGgufPyDoes) {
  const auto blocks = load<std::byte>(name + ".blocks");
  const auto expected = load<float>(name + ".f32");
  ASSERT_EQ(dtype_bytes(GetParam(), expected.size()), blocks.size());
  std::vector<float> actual(expected.size());
  dequantize_row(GetParam(), blocks.data(), actual.data(), static_cast<int64_t>(actual.size()));
  int finite = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(expected[i])) {  // random bits may be an infinite scale: 0 · ∞ included
      EXPECT_FALSE(std::isfinite(actual[i])) << i;
      continue;
    }
    ++finite;
    if (!traits.has_minimum()) {
      ASSERT_EQ(std::bit_cast<uint32_t>(actual[i]), std::bit_cast<uint32_t>(expected[i])) << name << " element " << i;
      continue;
    }
    DecodedBlock block;
    format.decode(blocks.data() + i / info.block_elements * info.block_bytes, block);
    if (traits.zero_points) block.minimum *= block.scale;
    const size_t g = i % info.block_elements / static_cast<size_t>(traits.group);
    const double offset = static_cast<double>(block.minimum) * block.sub_minimums[g];
    const double tolerance = 0x1p-23 * (std::fabs(expected[i] - offset) + std::fabs(offset));
    ASSERT_NEAR(actual[i], expected[i], tolerance) << name << " element " << i;
  }
  EXPECT_GE(finite, 1024);  // the blocks that ggml made
}

TEST_P(EveryFormat, HasBlocksAsItsTraitsSay) {
  EXPECT_TRUE(format.decode != nullptr || format.dequantize != nullptr);
  EXPECT_EQ(format.decode == nullptr, traits.bits == 0);
  EXPECT_TRUE(traits.group == 16 || traits.group == 32);
  EXPECT_EQ(info.block_elements % 32, 0);
  EXPECT_LT(traits.scale_at, traits.block_bytes);
  EXPECT_LT(traits.minimum_at, traits.block_bytes - 1);
  if (format.decode == nullptr) return;
  std::mt19937 random(7);
  std::vector<std::byte> bytes(info.block_bytes);
  int largest = 0;
  for (int round = 0; round < 64; ++round) {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    DecodedBlock block;
    format.decode(bytes.data(), block);
    for (int i = 0; i < info.block_elements; ++i) largest = std::max<int>(largest, block.codes[i]);
    if (!traits.has_minimum()) {
      EXPECT_EQ(block.minimum, 0);
    }
    for (int g = 0; g < info.block_elements / traits.group; ++g) {
      if (!traits.sub_scales) {
        EXPECT_EQ(block.sub_scales[g], 1);
      }
      if (!traits.has_minimum() || !traits.sub_scales) {
        EXPECT_EQ(block.sub_minimums[g], 1);
      }
    }
  }
  EXPECT_LT(largest, 1 << traits.bits);
  EXPECT_GE(largest, 1 << (traits.bits - 1));  // fewer bits would not do
}

TEST_P(EveryFormat, RefusesAPartialBlock) {
  std::vector<std::byte> bytes(info.block_bytes);
  std::vector<float> values(info.block_elements);
  EXPECT_THROW(dequantize_row(GetParam(), bytes.data(), values.data(), info.block_elements - 1), Error);
  EXPECT_THROW(dequantize_row(GetParam(), bytes.data(), values.data(), -info.block_elements), Error);
  EXPECT_THROW(quantize_row(GetParam(), values.data(), bytes.data(), 1), Error);
  EXPECT_NO_THROW(dequantize_row(GetParam(), nullptr, nullptr, 0));
}

constexpr DType kEncoded[] = {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0};

TEST(Quant, QuantizesAsGgmlDoes) {
  const auto values = load<float>("values.f32");
  for (const DType dtype : kEncoded) {
    const auto expected = load<std::byte>(std::string(dtype_name(dtype)) + ".encoded");
    std::vector<std::byte> actual(dtype_bytes(dtype, values.size()));
    quantize_row(dtype, values.data(), actual.data(), static_cast<int64_t>(values.size()));
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_EQ(actual[i], expected[i]) << dtype_name(dtype) << " block " << i / dtype_info(dtype).block_bytes
                                        << " byte " << i % dtype_info(dtype).block_bytes;
    }
  }
}

// Whatever comes in, a block comes out that decodes to codes in range, without undefined behavior on the way.
TEST(Quant, EncodersSurviveValuesThatAreNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float odd : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 3e38f, -3e38f, 1e-45f}) {
    std::vector<float> values(32, 0.5f);
    values[3] = odd;
    values[4] = -odd;
    for (const DType dtype : kEncoded) {
      std::vector<std::byte> block(dtype_info(dtype).block_bytes);
      quantize_row(dtype, values.data(), block.data(), 32);
      dequantize_row(dtype, block.data(), values.data(), 32);
    }
  }
  float tiny[32] = {1e-45f};  // 1 / scale overflows
  std::byte block[34];
  quantize_row(DType::q8_0, tiny, block, 32);
  quantize_row(DType::q4_1, tiny, block, 32);
}

TEST(Quant, RefusesWhatItCannotEncode) {
  std::vector<float> values(256);
  std::vector<std::byte> bytes(2048);
  EXPECT_THROW(quantize_row(DType::i32, values.data(), bytes.data(), 256), Error);
  EXPECT_THROW(dequantize_row(DType::i32, bytes.data(), values.data(), 256), Error);
}

TEST(Quant, PlainTypesPassThrough) {
  const float values[] = {0.0f, 1.0f, -2.5f, 65504.0f};  // exact in all three
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    std::byte bytes[17];  // off by one: rows in a file need not be aligned
    float back[4];
    quantize_row(dtype, values, bytes + 1, 4);
    dequantize_row(dtype, bytes + 1, back, 4);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(back[i], values[i]) << dtype_name(dtype);
    EXPECT_EQ(back[3], dtype == DType::bf16 ? 65536.0f : 65504.0f);
  }
}

}  // namespace
}  // namespace gabbro
