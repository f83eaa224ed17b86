// Reductions and normalizing ops of f16 and bf16, against double precision: sums in f32, and one rounding of the result
// to the half.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "backends/common/kernel_test.h"
#include "src/base/half.h"

namespace gabbro::kernel_test {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr int64_t kColumns[] = {1, 7, 16, 33, 64, 127, 1009, 5000};

double to_double(DType dtype, uint16_t bits) {
  return dtype == DType::f16 ? half_bits_to_float(bits) : bfloat_bits_to_float(bits);
}
uint16_t to_bits(DType dtype, float value) {
  return dtype == DType::f16 ? float_to_half_bits(value) : float_to_bfloat_bits(value);
}

Tensor& fill_f16(Tensor& x, std::mt19937& generator, float low, float high) {
  std::uniform_real_distribution<float> uniform(low, high);
  const DType dtype = x.view().dtype;
  return x.fill<uint16_t>([&] { return to_bits(dtype, uniform(generator)); });
}

// All elements in row-major order, of f32 or of a half.
std::vector<double> doubles(Tensor& x) {
  const DType dtype = x.view().dtype;
  std::vector<double> all;
  for (int64_t i = 0; i < x.count(); ++i) {
    all.push_back(dtype == DType::f32 ? x.at<float>(i) : to_double(dtype, x.at<uint16_t>(i)));
  }
  return all;
}
std::vector<float> floats(Tensor& x) {
  const std::vector<double> all = doubles(x);
  return {all.begin(), all.end()};
}

// Half a unit of the last place, below the smallest normal number that of it, and what the f32 before may be off by.
double rounded_once(DType dtype, double value, double f32_roundings) {
  const double smallest = dtype == DType::f16 ? 0x1p-14 : 0x1p-126, unit = dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
  return unit * std::max(std::abs(value), smallest) + f32_roundings * kEpsilon * std::abs(value);
}

struct Reduction {
  const char* op;
  double (*value)(const std::vector<double>& row);
};
constexpr Reduction kReductions[] = {
    {"sum", [](const std::vector<double>& row) { return std::accumulate(row.begin(), row.end(), 0.0); }},
    {"prod",
     [](const std::vector<double>& row) { return std::accumulate(row.begin(), row.end(), 1.0, std::multiplies<>()); }},
    {"max",
     [](const std::vector<double>& row) {
       return row.empty() ? -kInfinite : *std::max_element(row.begin(), row.end());
     }},
    {"min",
     [](const std::vector<double>& row) {
       return row.empty() ? kInfinite : *std::min_element(row.begin(), row.end());
     }},
};

// Rows of neighbors, rows side by side, and rows with gaps between their elements.
TEST(HalfPrecision, Reduce) {
  std::mt19937 generator(1);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const auto& [rows, columns] : {std::tuple<int64_t, int64_t>{3, 0},
                                        {3, 1},
                                        {2, 15},
                                        {3, 16},
                                        {5, 65},
                                        {3, 1009},
                                        {1, 70001},
                                        {300, 129},
                                        {700, 17}}) {
      for (const Shape& strides : {Shape{columns, 1}, Shape{1, rows}, Shape{3 * columns + 1, 3}}) {
        SCOPED_TRACE(std::string(dtype_name(dtype)) + ::testing::PrintToString(std::vector{rows, columns}) +
                     ::testing::PrintToString(strides));
        Tensor x(dtype, {rows, columns}, strides, 0, rows * (3 * columns + 1) + 1);
        fill_f16(x, generator, columns > 2000 ? 0.99f : 0.7f, columns > 2000 ? 1.01f : 1.3f);
        const std::vector<double> all = doubles(x);
        const auto row = [&](int64_t r) {
          return std::vector<double>(all.begin() + r * columns, all.begin() + (r + 1) * columns);
        };
        for_each_target([&](const Target& target) {
          for (const Reduction& reduction : kReductions) {
            SCOPED_TRACE(reduction.op);
            std::vector<double> expected;
            for (int64_t r = 0; r < rows; ++r) expected.push_back(reduction.value(row(r)));
            Tensor y(DType::f32, {rows, 1});
            target.run({reduction.op, {&x}, {&y}, {}});
            const double roundings = (reduction.op[0] == 'p' ? 1.0 : 1.0 / 16) * static_cast<double>(columns) + 4;
            expect_close(y.values<float>(), expected,
                         [&](size_t i) { return roundings * kEpsilon * std::abs(expected[i]); });
          }
          for (const bool largest : {true, false}) {
            std::vector<int32_t> expected;
            for (int64_t r = 0; r < rows; ++r) {
              const std::vector<double> one = row(r);
              const auto found =
                  largest ? std::max_element(one.begin(), one.end()) : std::min_element(one.begin(), one.end());
              expected.push_back(static_cast<int32_t>(found - one.begin()));
            }
            Tensor index(DType::i32, {rows, 1});
            target.run({largest ? "argmax" : "argmin", {&x}, {&index}, {}});
            EXPECT_EQ(index.values<int32_t>(), expected) << largest;
          }
        });
      }
    }
  }
}

void put(Tensor& x, int64_t index, float value) {
  const DType dtype = x.view().dtype;
  if (dtype == DType::f32) {
    x.at<float>(index) = value;
  } else {
    x.at<uint16_t>(index) = to_bits(dtype, value);
  }
}

// NaN and infinities at any index of a row, next to other values: of many rows of zeros the first has a NaN and the
// others an infinity, and all have the other infinity after it.
TEST(HalfPrecision, ReduceNanAndInfinities) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const int64_t count : {3, 40, 401}) {
      for (const bool across : {false, true}) {
        for (const int64_t place : {int64_t{0}, count / 2, count - 1}) {
          SCOPED_TRACE(std::string(dtype_name(dtype)) + " " + std::to_string(count) + " " + std::to_string(place));
          constexpr int64_t kRows = 21;
          Tensor x(dtype, {kRows, count}, across ? Shape{1, kRows} : Shape{count, 1}, 0, kRows * count);
          const int64_t behind = (place + 1) % count;
          for (int64_t row = 0; row < kRows; ++row) {
            put(x, row * count + place, row == 0 ? NAN : INFINITY);
            put(x, row * count + behind, -INFINITY);
          }
          for_each_target([&](const Target& target) {
            Tensor y(DType::f32, {kRows, 1}), index(DType::i32, {kRows, 1});
            for (const auto& [op, value] :
                 {std::pair{"sum", NAN}, {"prod", NAN}, {"max", INFINITY}, {"min", -INFINITY}}) {
              SCOPED_TRACE(op);
              target.run({op, {&x}, {&y}, {}});
              std::vector<double> expected(kRows, value);
              expected[0] = NAN;
              expect_close(y.values<float>(), expected, [](size_t) { return 0.0; });
            }
            std::vector<int32_t> expected(kRows, static_cast<int32_t>(place));
            target.run({"argmax", {&x}, {&index}, {}});
            EXPECT_EQ(index.values<int32_t>(), expected);
            std::fill(expected.begin() + 1, expected.end(), static_cast<int32_t>(behind));
            target.run({"argmin", {&x}, {&index}, {}});
            EXPECT_EQ(index.values<int32_t>(), expected);
          });
        }
      }
    }
  }
}

TEST(HalfPrecision, Softmax) {
  std::mt19937 generator(2);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const int64_t columns : kColumns) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + " " + std::to_string(columns));
      Tensor x(dtype, {5, columns});
      fill_f16(x, generator, -9, 9);
      x.at<uint16_t>(0) = to_bits(dtype, -INFINITY);
      const std::vector<double> all = doubles(x);
      std::vector<double> expected, logarithms;
      for (auto row = all.begin(); row != all.end(); row += columns) {
        const double highest = *std::max_element(row, row + columns);
        double sum = 0;
        for (int64_t c = 0; c < columns; ++c) sum += std::exp(row[c] - highest);
        for (int64_t c = 0; c < columns; ++c) {
          expected.push_back(std::exp(row[c] - highest) / sum);
          logarithms.push_back(row[c] - highest - std::log(sum));
        }
      }
      for_each_target([&](const Target& target) {
        Tensor y(dtype, {5, columns});
        // x - maximum is exact in f32; the sum in 16 lanes is off by columns / 16 roundings.
        const double roundings = 8 + static_cast<double>(columns) / 16;
        target.run({"softmax", {&x}, {&y}, {}});
        expect_close(floats(y), expected, [&](size_t i) { return rounded_once(dtype, expected[i], roundings); });
        target.run({"log_softmax", {&x}, {&y}, {}});
        expect_close(floats(y), logarithms,
                     [&](size_t i) { return rounded_once(dtype, logarithms[i], 2) + (roundings + 8) * kEpsilon; });
      });
    }
  }
}

// Parameters in f32, or in x's dtype: the results are equal if the values are exact in that dtype.
class Parameters {
 public:
  Parameters(DType dtype, int64_t count, std::mt19937& generator)
      : weight_(dtype, {count}),
        bias_(dtype, {count}),
        wide_weight_(DType::f32, {count}),
        wide_bias_(DType::f32, {count}) {
    for (auto [half, wide] : {std::pair{&weight_, &wide_weight_}, {&bias_, &wide_bias_}}) {
      fill_f16(*half, generator, -2, 2);
      for (int64_t i = 0; i < count; ++i)
        wide->at<float>(i) = static_cast<float>(to_double(dtype, half->at<uint16_t>(i)));
    }
  }
  Tensor* weight(bool wide) { return wide ? &wide_weight_ : &weight_; }
  Tensor* bias(bool wide) { return wide ? &wide_bias_ : &bias_; }

 private:
  Tensor weight_, bias_, wide_weight_, wide_bias_;
};

// (x - mean) / sqrt(variance + epsilon) · weight + bias of rows of `columns`; `channel` gives an element's channel.
// With `centered` false the mean counts as 0, and there is no bias. `sizes` gets what rounding errors scale with.
std::vector<double> normalized(const std::vector<double>& x, int64_t columns, bool centered, double epsilon,
                               const std::vector<double>& weight, const std::vector<double>& bias,
                               const std::function<int64_t(int64_t)>& channel, std::vector<double>& sizes) {
  std::vector<double> y;
  sizes.clear();
  for (int64_t first = 0; first < static_cast<int64_t>(x.size()); first += columns) {
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < columns && centered; ++c) mean += x[first + c] / static_cast<double>(columns);
    for (int64_t c = 0; c < columns; ++c) variance += std::pow(x[first + c] - mean, 2) / static_cast<double>(columns);
    const double factor = 1 / std::sqrt(variance + epsilon);
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t at = channel(first + c);
      const double scaled = (x[first + c] - mean) * factor * weight[at], shift = centered ? bias[at] : 0;
      y.push_back(scaled + shift);
      sizes.push_back(std::abs(scaled) + std::abs(shift) + std::abs(mean * factor * weight[at]));
    }
  }
  return y;
}

TEST(HalfPrecision, NormsOfRows) {
  std::mt19937 generator(3);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const int64_t columns : kColumns) {
      Tensor x(dtype, {5, columns});
      fill_f16(x, generator, -3, 4);
      Parameters parameters(dtype, columns, generator);
      const std::vector<double> weight = doubles(*parameters.weight(true)), bias = doubles(*parameters.bias(true));
      for (const bool centered : {true, false}) {
        std::vector<double> sizes;
        const std::vector<double> expected = normalized(
            doubles(x), columns, centered, 1e-5, weight, bias, [&](int64_t i) { return i % columns; }, sizes);
        for (const bool wide : {true, false}) {
          SCOPED_TRACE(std::string(dtype_name(dtype)) + " " + std::to_string(columns) + (centered ? " layer" : " rms"));
          for_each_target([&](const Target& target) {
            Tensor y(dtype, {5, columns});
            Call call{
                centered ? "layer_norm" : "rms_norm", {&x, parameters.weight(wide)}, {&y}, {real("epsilon", 1e-5)}};
            if (centered) {
              call.inputs.push_back(parameters.bias(wide));
              call.attributes.insert(call.attributes.end(), {integer("weight", 1), integer("bias", 1)});
            }
            target.run(call);
            // Sums in 16 lanes at least.
            const double roundings = 8 + static_cast<double>(columns) / 16;
            expect_close(floats(y), expected, [&](size_t i) {
              return rounded_once(dtype, expected[i], 0) + roundings * kEpsilon * sizes[i];
            });
          });
        }
      }
    }
  }
}

TEST(HalfPrecision, NormsOfChannels) {
  std::mt19937 generator(4);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const int64_t inner : {1, 7, 65, 272}) {
      constexpr int64_t kImages = 2, kChannels = 6, kGroups = 3;
      Tensor x(dtype, {kImages, kChannels, inner});
      fill_f16(x, generator, -3, 4);
      Parameters parameters(dtype, kChannels, generator);
      const std::vector<double> all = doubles(x);
      const std::vector<double> weight = doubles(*parameters.weight(true)), bias = doubles(*parameters.bias(true));
      const int64_t columns = kChannels / kGroups * inner;
      std::vector<double> sizes;
      const std::vector<double> expected = normalized(
          all, columns, true, 1e-3, weight, bias, [&](int64_t i) { return i / inner % kChannels; }, sizes);
      std::vector<double> mean(kChannels), variance(kChannels);
      for (size_t i = 0; i < all.size(); ++i)
        mean[i / inner % kChannels] += all[i] / static_cast<double>(kImages * inner);
      for (size_t i = 0; i < all.size(); ++i)
        variance[i / inner % kChannels] +=
            std::pow(all[i] - mean[i / inner % kChannels], 2) / static_cast<double>(kImages * inner);
      Tensor m(DType::f32, {kChannels}), v(DType::f32, {kChannels}), y(dtype, {kImages, kChannels, inner});
      for (const bool wide : {true, false}) {
        SCOPED_TRACE(std::string(dtype_name(dtype)) + " " + std::to_string(inner) + (wide ? " wide" : ""));
        for_each_target([&](const Target& target) {
          const double roundings = 8 + static_cast<double>(columns) / 16;
          target.run({"group_norm",
                      {&x, parameters.weight(wide), parameters.bias(wide)},
                      {&y},
                      {integer("weight", 1), integer("bias", 1), integer("groups", kGroups), real("epsilon", 1e-3)}});
          expect_close(floats(y), expected,
                       [&](size_t i) { return rounded_once(dtype, expected[i], 0) + roundings * kEpsilon * sizes[i]; });
          target.run({"moments", {&x}, {&m, &v}, {}});
          expect_close(m.values<float>(), mean, [&](size_t) { return roundings * kEpsilon * 4; });
          expect_close(v.values<float>(), variance, [&](size_t) { return roundings * kEpsilon * 16; });
          target.run({"batch_norm",
                      {&x, &m, &v, parameters.weight(wide), parameters.bias(wide)},
                      {&y},
                      {integer("weight", 1), integer("bias", 1), real("epsilon", 1e-1)}});
          std::vector<double> scaled, magnitudes;
          for (size_t i = 0; i < all.size(); ++i) {
            const size_t c = i / inner % kChannels;
            const double factor = weight[c] / std::sqrt(v.at<float>(static_cast<int64_t>(c)) + 1e-1);
            scaled.push_back((all[i] - m.at<float>(static_cast<int64_t>(c))) * factor + bias[c]);
            magnitudes.push_back((std::abs(all[i]) + 1) * std::abs(factor) + std::abs(bias[c]));
          }
          expect_close(floats(y), scaled,
                       [&](size_t i) { return rounded_once(dtype, scaled[i], 0) + 8 * kEpsilon * magnitudes[i]; });
        });
      }
    }
  }
}

// Every number of 16 bits, and NaN: its negative is itself with the other sign.
TEST(HalfPrecision, AreKeptToTheBit) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    Tensor x(dtype, {65536}), y(dtype, {65536});
    for (int64_t i = 0; i < 65536; ++i) x.at<uint16_t>(i) = static_cast<uint16_t>(i);
    for_each_target([&](const Target& target) {
      target.run({"neg", {&x}, {&y}, {}});
      for (int64_t i = 0; i < 65536; ++i) {
        const double value = to_double(dtype, static_cast<uint16_t>(i));
        if (std::isnan(value)) {
          ASSERT_TRUE(std::isnan(to_double(dtype, y.at<uint16_t>(i)))) << i;
        } else {
          ASSERT_EQ(y.at<uint16_t>(i), i ^ 0x8000) << i;
        }
      }
    });
  }
}

// Rounding to nearest even: f32 values near the middle of two f16 or bf16 values, and on it.
TEST(HalfPrecision, AreRoundedToTheNearest) {
  std::vector<float> values = {65504, 65519.996f, 65520,    3.3961e38f, -3.4e38f, 1e-45f,
                               6e-8f, 2.98e-8f,   INFINITY, -INFINITY,  0,        -0.0f};
  std::mt19937 generator(5);
  std::uniform_int_distribution<uint32_t> any;
  for (int i = 0; i < 20000; ++i) {
    uint32_t bits = any(generator);
    if (i % 2 == 0) bits = (bits & ~0xffffu) | 0x8000u;
    if (i % 4 == 1) bits = (bits & ~0x1fffu) | 0x1000u;
    const float value = std::bit_cast<float>(bits);
    if (!std::isnan(value)) values.push_back(value);
  }
  for (const DType dtype : {DType::f16, DType::bf16}) {
    Tensor x(DType::f32, {static_cast<int64_t>(values.size())}), y(dtype, {x.count()});
    std::copy(values.begin(), values.end(), x.data<float>());
    for_each_target([&](const Target& target) {
      target.run({"cast", {&x}, {&y}, {}});
      for (int64_t i = 0; i < x.count(); ++i) ASSERT_EQ(y.at<uint16_t>(i), to_bits(dtype, values[i])) << values[i];
    });
  }
}

}  // namespace
}  // namespace gabbro::kernel_test
