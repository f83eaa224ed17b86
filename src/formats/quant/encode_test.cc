// Encoders of all formats: errors compared with ggml's quantizers, and odd blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <sstream>
#include <vector>

#include "src/base/mapped_file.h"
#include "src/formats/quant/quant.h"

namespace gabbro {
namespace {

constexpr int kRows = 16, kColumns = 512;

struct Rows {
  std::vector<float> values;      // [kRows, kColumns]
  std::vector<float> importance;  // [kColumns]
};

// As test_rows of tests/reference/compare_quantizers.py. Sums of four uniform numbers, with heavy tails in the second
// half; importance of a few columns is large.
Rows make_rows() {
  uint32_t state = 20261125;
  const auto uniform = [&] {
    state = 1664525 * state + 1013904223;
    return (state >> 8) * 0x1p-24;
  };
  Rows rows;
  for (int i = 0; i < kRows * kColumns; ++i) {
    double sum = 0;
    for (int k = 0; k < 4; ++k) sum += uniform();
    sum -= 2;
    rows.values.push_back(static_cast<float>(i < kRows * kColumns / 2 ? 0.05 * sum : 0.05 * sum * sum * sum));
  }
  for (int i = 0; i < kColumns; ++i) {
    const double u = uniform();
    rows.importance.push_back(static_cast<float>(u * u * u * u + 0.01));
  }
  return rows;
}

std::vector<std::byte> encode(DType dtype, const std::vector<float>& values, const float* importance = nullptr,
                              int64_t columns = 0) {
  if (columns == 0) columns = std::ssize(values);
  std::vector<std::byte> blocks(dtype_bytes(dtype, values.size()));
  const size_t row_bytes = dtype_bytes(dtype, static_cast<size_t>(columns));
  for (size_t row = 0; row < values.size() / static_cast<size_t>(columns); ++row) {
    quantize_row(dtype, values.data() + row * static_cast<size_t>(columns), importance, blocks.data() + row * row_bytes,
                 columns);
  }
  return blocks;
}

std::vector<float> decode(DType dtype, const std::vector<std::byte>& blocks, size_t elements) {
  std::vector<float> values(elements);
  dequantize_row(dtype, blocks.data(), values.data(), static_cast<int64_t>(elements));
  return values;
}

// sqrt(Σ w (x - x')² / Σ w x²), where the weights are repeated for each row.
double relative_error(const std::vector<float>& values, const std::vector<float>& decoded,
                      const std::vector<float>* importance = nullptr) {
  double error = 0, squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double weight = importance != nullptr ? (*importance)[i % importance->size()] : 1.0;
    const double difference = static_cast<double>(values[i]) - decoded[i];
    error += weight * difference * difference;
    squares += weight * values[i] * values[i];
  }
  return std::sqrt(error / squares);
}

std::vector<DType> with_encoder() {
  std::vector<DType> all;
  for (int i = kFirstQuantized; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (quant_format(dtype).encode != nullptr) all.push_back(dtype);
  }
  return all;
}

// Formats whose encoder is llama.cpp's reference where there is no importance: blocks that are not finite stay so.
bool is_reference(DType dtype) {
  for (const DType other : {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0}) {
    if (dtype == other) return true;
  }
  return false;
}

struct Figures {
  double plain, weighted;
};

std::map<std::string, Figures> ggml_errors() {
  std::map<std::string, Figures> all;
  std::istringstream lines(read_file(std::string(GABBRO_SOURCE_DIR) + "/tests/data/formats/quant/ggml_errors.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream fields(line);
    std::string name;
    Figures figures{};
    fields >> name >> figures.plain >> figures.weighted;
    all[name] = figures;
  }
  return all;
}

class EveryEncoder : public testing::TestWithParam<DType> {
 protected:
  const DType dtype = GetParam();
  const DTypeInfo info = dtype_info(GetParam());
  const size_t block = static_cast<size_t>(info.block_elements);
};
INSTANTIATE_TEST_SUITE_P(Quant, EveryEncoder, testing::ValuesIn(with_encoder()),
                         [](const auto& instance) { return std::string(dtype_name(instance.param)); });

TEST_P(EveryEncoder, HasNoLargerErrorThanGgml) {
  const auto figures = ggml_errors();
  const auto found = figures.find(std::string(info.name));
  ASSERT_NE(found, figures.end()) << "tests/reference/compare_quantizers.py --figures writes it";
  const Rows rows = make_rows();
  const auto plain = decode(dtype, encode(dtype, rows.values, nullptr, kColumns), rows.values.size());
  const auto weighted = decode(dtype, encode(dtype, rows.values, rows.importance.data(), kColumns), rows.values.size());
  constexpr double kRounded = 1e-7;  // the figures have seven digits
  EXPECT_LE(relative_error(rows.values, plain), found->second.plain + kRounded);
  EXPECT_LE(relative_error(rows.values, weighted, &rows.importance), found->second.weighted + kRounded);
}

TEST_P(EveryEncoder, ImportanceLowersTheWeightedError) {
  const Rows rows = make_rows();
  const auto plain = decode(dtype, encode(dtype, rows.values, nullptr, kColumns), rows.values.size());
  const auto weighted = decode(dtype, encode(dtype, rows.values, rows.importance.data(), kColumns), rows.values.size());
  const double before = relative_error(rows.values, plain, &rows.importance);
  const double after = relative_error(rows.values, weighted, &rows.importance);
  if (dtype == DType::q8_0) {  // ignores it
    EXPECT_EQ(after, before);
  } else {
    EXPECT_LT(after, before);
  }
}

// Values that a block has already. If scales are rounded to multiples of a common one, the search may settle on
// other multiples, with a fraction of the first error: 0.14 of it for Q2_K and Q5_K, less for the others.
TEST_P(EveryEncoder, KeepsValuesOfItsGrid) {
  const Rows rows = make_rows();
  const auto once = decode(dtype, encode(dtype, rows.values), rows.values.size());
  const auto twice = decode(dtype, encode(dtype, once), once.size());
  EXPECT_LE(relative_error(once, twice), 0.2 * relative_error(rows.values, once));
}

TEST_P(EveryEncoder, ZerosStayZeros) {
  for (const float zero : {0.0f, -0.0f}) {
    for (const float value : decode(dtype, encode(dtype, std::vector<float>(block, zero)), block)) EXPECT_EQ(value, 0);
  }
}

// All formats have a level that a scale brings to ±1/2; a scale is an f16, or a power of two.
TEST_P(EveryEncoder, ConstantsAreKept) {
  for (const float constant : {0.5f, -0.5f}) {
    const auto decoded = decode(dtype, encode(dtype, std::vector<float>(block, constant)), block);
    for (size_t i = 0; i < block; ++i) ASSERT_NEAR(decoded[i], constant, 0x1p-10f) << info.name << " element " << i;
  }
}

TEST_P(EveryEncoder, LargeAndSmallValuesDecode) {
  const Rows rows = make_rows();
  for (const float scale : {1e-45f, 1e-38f, 1e-9f, 1e6f, 3e38f}) {
    std::vector<float> values(rows.values.begin(), rows.values.begin() + static_cast<int64_t>(block));
    float largest = 0;
    for (float& value : values) {
      value *= scale * 8;
      largest = std::max(largest, std::fabs(value));
    }
    const auto decoded = decode(dtype, encode(dtype, values), block);
    if (is_reference(dtype)) continue;
    for (const float value : decoded) {
      ASSERT_TRUE(std::isfinite(value)) << info.name << " at " << scale;
      ASSERT_LE(std::fabs(value), 2 * largest);
    }
  }
}

TEST_P(EveryEncoder, ValuesThatAreNotFiniteGiveABlockThatDecodes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Rows rows = make_rows();
  for (const float odd : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (const bool weighted : {false, true}) {
      std::vector<float> values(rows.values.begin(), rows.values.begin() + static_cast<int64_t>(block));
      values[3] = odd;
      values[17] = -odd;
      const auto decoded = decode(dtype, encode(dtype, values, weighted ? rows.importance.data() : nullptr), block);
      if (is_reference(dtype)) continue;
      for (const float value : decoded) ASSERT_TRUE(std::isfinite(value)) << info.name << " with " << odd;
    }
  }
}

TEST_P(EveryEncoder, ImportanceWithoutWeightIsNone) {
  const Rows rows = make_rows();
  const auto expected = encode(dtype, rows.values);
  for (const float weight : {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN()}) {
    const std::vector<float> importance(rows.values.size(), weight);
    EXPECT_EQ(encode(dtype, rows.values, importance.data()), expected) << weight;
  }
}

TEST_P(EveryEncoder, AnyImportanceDecodes) {
  const Rows rows = make_rows();
  constexpr float kOdd[] = {
      0, 1e-45f, 3e38f, -1, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()};
  std::vector<float> importance;
  for (size_t i = 0; i < rows.values.size(); ++i) importance.push_back(kOdd[i * i % 6]);
  const auto decoded = decode(dtype, encode(dtype, rows.values, importance.data()), rows.values.size());
  for (const float value : decoded) ASSERT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace gabbro
