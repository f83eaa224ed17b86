// Attention of encoders over texts of several lengths against its definition in double, text by text.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "gabbro/graph/eval.h"
#include "src/models/encoder/encoder.h"
#include "tests/rounding.h"

namespace gabbro {
namespace {

constexpr int64_t kQueryHeads = 4, kKeyHeads = 2, kHeadLength = 8;
constexpr int64_t kTextLengths[] = {150, 1, 67};

struct AttentionCase {
  const char* name = "";
  int64_t window = 0;
  bool causal = false, alibi = false, buckets = false;
  int64_t most_queries = 0;
};

std::ostream& operator<<(std::ostream& out, const AttentionCase& tested) { return out << tested.name; }

constexpr encoder::BucketConfig kFewBuckets{.count = 8, .farthest = 16};

std::vector<float> random_numbers(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

// T5's buckets as its paper's code has them: exact ones, then logarithmic ones, the second half for later keys.
int64_t bucket_of(int64_t distance) {
  const int64_t half = kFewBuckets.count / 2, exact = half / 2, far = std::abs(distance);
  int64_t bucket = far;
  if (far >= exact) {
    const double grown = std::log(static_cast<double>(far) / static_cast<double>(exact)) /
                         std::log(static_cast<double>(kFewBuckets.farthest) / static_cast<double>(exact)) *
                         static_cast<double>(half - exact);
    bucket = std::min(half - 1, exact + static_cast<int64_t>(grown));
  }
  return bucket + (distance > 0 ? half : 0);
}

class EncoderAttentionTest : public testing::TestWithParam<AttentionCase> {};

TEST_P(EncoderAttentionTest, IsItsDefinitionWithinEachText) {
  const AttentionCase& tested = GetParam();
  const auto device = open_device("auto", {.threads = 2});
  std::vector<encoder::EncoderText> texts;
  for (const int64_t length : kTextLengths) texts.push_back({.ids = std::vector<int32_t>(static_cast<size_t>(length))});
  const encoder::EncoderBatch batch = encoder::make_batch(device, texts);
  const auto q = random_numbers(batch.tokens * kQueryHeads * kHeadLength, 1),
             k = random_numbers(batch.tokens * kKeyHeads * kHeadLength, 2),
             v = random_numbers(batch.tokens * kKeyHeads * kHeadLength, 3),
             table = random_numbers(kFewBuckets.count * kQueryHeads, 4);
  const std::vector<float> slopes = encoder::alibi_slopes(kQueryHeads, 8);
  const auto upload = [&](const std::vector<float>& values, const Shape& shape) {
    return device->upload(DType::f32, shape, values.data());
  };
  encoder::EncoderAttention options{
      .scale = 0.5f, .window = tested.window, .causal = tested.causal, .most_queries = tested.most_queries};
  if (tested.alibi) options.slopes = upload(slopes, Shape{kQueryHeads});
  if (tested.buckets) {
    options.distance_bias =
        encoder::biases_of_distances(upload(table, Shape{kFewBuckets.count, kQueryHeads}), kFewBuckets, batch.longest);
  }
  const std::vector<float> actual =
      to_host<float>(encoder::attend(batch, upload(q, Shape{batch.tokens, kQueryHeads, kHeadLength}),
                                     upload(k, Shape{batch.tokens, kKeyHeads, kHeadLength}),
                                     upload(v, Shape{batch.tokens, kKeyHeads, kHeadLength}), options));
  const auto at = [](const std::vector<float>& x, int64_t heads, int64_t token, int64_t head, int64_t d) {
    return static_cast<double>(x[static_cast<size_t>((token * heads + head) * kHeadLength + d)]);
  };
  // Scores of up to 16 are off by their sums' roundings, and so are probabilities, relative to their size; values have
  // up to 4 deviations.
  const double tolerance = 4 * (16 * test::rounding_bound(kHeadLength + 2) + test::rounding_bound(150));
  int64_t first = 0;
  for (const int64_t length : kTextLengths) {
    for (int64_t i = 0; i < length; ++i) {
      for (int64_t h = 0; h < kQueryHeads; ++h) {
        const int64_t g = h / (kQueryHeads / kKeyHeads);
        std::vector<double> sums(kHeadLength, 0.0);
        double total = 0;
        for (int64_t j = 0; j < length; ++j) {
          if (tested.window > 0 && std::abs(i - j) > tested.window) continue;
          if (tested.causal && j > i) continue;
          double score = 0;
          for (int64_t d = 0; d < kHeadLength; ++d)
            score += at(q, kQueryHeads, first + i, h, d) * at(k, kKeyHeads, first + j, g, d) * 0.5;
          if (tested.alibi)
            score -= std::exp2(-2.0 * static_cast<double>(h + 1)) * static_cast<double>(std::abs(i - j));
          if (tested.buckets) score += table[static_cast<size_t>(bucket_of(j - i) * kQueryHeads + h)];
          total += std::exp(score);
          for (int64_t d = 0; d < kHeadLength; ++d)
            sums[static_cast<size_t>(d)] += std::exp(score) * at(v, kKeyHeads, first + j, g, d);
        }
        for (int64_t d = 0; d < kHeadLength; ++d) {
          ASSERT_NEAR(at(actual, kQueryHeads, first + i, h, d), sums[static_cast<size_t>(d)] / total, tolerance)
              << "token " << i << " of " << length << ", head " << h;
        }
      }
    }
    first += length;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, EncoderAttentionTest,
    testing::Values(AttentionCase{.name = "plain"}, AttentionCase{.name = "in_chunks", .most_queries = 40},
                    AttentionCase{.name = "window", .window = 9},
                    AttentionCase{.name = "window_in_chunks", .window = 50, .most_queries = 31},
                    AttentionCase{.name = "causal", .causal = true},
                    AttentionCase{.name = "causal_in_chunks", .causal = true, .most_queries = 64},
                    AttentionCase{.name = "causal_window", .window = 5, .causal = true},
                    AttentionCase{.name = "alibi_in_chunks", .alibi = true, .most_queries = 70},
                    AttentionCase{.name = "buckets_in_chunks", .buckets = true, .most_queries = 149}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(AlibiSlopes, OfNoPowerOfTwoTakeEveryOtherOneOfTheNextPower) {
  const std::vector<float> slopes = encoder::alibi_slopes(6, 8);
  const double exponents[] = {2, 4, 6, 8, 1, 3};  // Press et al. 2022, appendix A: 4 heads, then of 8
  ASSERT_EQ(slopes.size(), 6u);
  for (size_t h = 0; h < 6; ++h) EXPECT_FLOAT_EQ(slopes[h], static_cast<float>(std::exp2(-exponents[h]))) << h;
}

}  // namespace
}  // namespace gabbro
