// `sampling` against a sorted row in double precision, for rows with different parameters in one call.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "src/base/error.h"
#include "src/ops/cases/cases.h"
#include "src/ops/sampling.h"

namespace gabbro::sampling_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Edit {
  int32_t token;
  int32_t count;
  float bias;
};

struct RowCase {
  float temperature = 1, top_k = 0, top_p = 1, min_p = 0, repeat = 1, frequency = 0, presence = 0;
  uint64_t bits = 0;
  std::vector<Edit> edits{};
};

struct Expected {
  int32_t token = -1;
  double log_probability = 0, draw_margin = 1, cut_margin = 1;
};

// Another token is below the value unless the item that has it is the first.
double margin(double value, double before, double after) {
  return before > 0 ? std::min(value - before, after - value) : after - value;
}

// The sampler's steps by their definitions: every token in a list, sums in double precision.
Expected reference(std::vector<float> logits, const RowCase& c) {
  for (const Edit& e : c.edits) {
    float& l = logits[static_cast<size_t>(e.token)];
    l += e.bias;
    if (e.count == 0) continue;
    l = l > 0 ? l / c.repeat : l * c.repeat;
    const float product = static_cast<float>(e.count) * c.frequency;
    l -= product + c.presence;
  }
  std::vector<int32_t> ids;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > -kInfinity) ids.push_back(static_cast<int32_t>(i));
  }
  if (ids.empty()) return {};
  const auto logit = [&](int32_t id) {
    return static_cast<double>(std::min(logits[static_cast<size_t>(id)], std::numeric_limits<float>::max()));
  };
  std::vector<int32_t> sorted = ids;
  std::ranges::stable_sort(sorted, [&](int32_t a, int32_t b) {
    return c.temperature == 0 ? logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)] : logit(a) > logit(b);
  });
  const double largest = logit(sorted[0]);
  if (c.temperature == 0) return {sorted[0]};
  const bool by_count = c.top_k > 0 && c.top_k < static_cast<float>(logits.size());
  if (by_count || c.top_p < 1) ids = sorted;
  if (by_count) ids.resize(std::min(ids.size(), static_cast<size_t>(c.top_k)));
  Expected expected;
  const auto sum_of = [&](const auto& weight) {
    return std::accumulate(ids.begin(), ids.end(), 0.0, [&](double sum, int32_t id) { return sum + weight(id); });
  };
  if (c.top_p < 1) {
    const auto weight = [&](int32_t id) { return std::exp(logit(id) - largest); };
    const double total = sum_of(weight);
    double sum = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      const double before = sum;
      sum += weight(ids[i]) / total;
      if (sum < c.top_p) continue;
      expected.cut_margin = margin(c.top_p, before, sum);
      ids.resize(i + 1);
    }
  }
  const auto least = static_cast<float>(largest) + std::log(c.min_p);
  if (c.min_p > 0) std::erase_if(ids, [&](int32_t id) { return logit(id) < least; });
  const auto weight = [&](int32_t id) { return std::exp((logit(id) - largest) / c.temperature); };
  const double total = sum_of(weight), u = static_cast<double>(c.bits >> 11) * 0x1p-53;
  double sum = 0;
  for (const int32_t id : ids) {
    const double before = sum;
    sum += weight(id) / total;
    if (sum <= u) continue;
    expected.token = id;
    expected.log_probability = std::log(weight(id) / total);
    expected.draw_margin = margin(u, before, sum);
    return expected;
  }
  expected.draw_margin = 0;
  return expected;
}

struct Outcome {
  std::vector<int32_t> tokens;
  std::vector<float> measures;
};

Outcome sampled(const std::vector<std::vector<float>>& logits, const std::vector<RowCase>& cases) {
  const auto rows = std::ssize(cases);
  const auto columns = std::ssize(logits[0]);
  size_t width = 0;
  for (const RowCase& c : cases) width = std::max(width, c.edits.size());
  std::vector<float> all, settings, bias;
  std::vector<int32_t> draws, edits;
  for (size_t row = 0; row < cases.size(); ++row) {
    const RowCase& c = cases[row];
    all.insert(all.end(), logits[row].begin(), logits[row].end());
    settings.insert(settings.end(), {c.temperature, c.top_k, c.top_p, c.min_p > 0 ? std::log(c.min_p) : -kInfinity,
                                     c.repeat, c.frequency, c.presence});
    draws.insert(draws.end(), {static_cast<int32_t>(c.bits), static_cast<int32_t>(c.bits >> 32)});
    for (size_t i = 0; i < width; ++i) {
      const Edit e = i < c.edits.size() ? c.edits[i] : Edit{-1, 0, 0};
      edits.insert(edits.end(), {e.token, e.count});
      bias.push_back(e.bias);
    }
  }
  Device& device = *cases::device();
  SamplingRows inputs{.settings = device.upload(DType::f32, Shape{rows, 7}, settings.data()),
                      .draws = device.upload(DType::i32, Shape{rows, 2}, draws.data())};
  if (width > 0) {
    inputs.edits = device.upload(DType::i32, Shape{rows, static_cast<int64_t>(width), 2}, edits.data());
    inputs.bias = device.upload(DType::f32, Shape{rows, static_cast<int64_t>(width)}, bias.data());
  }
  const SampledTokens result = sample_tokens(device.upload(DType::f32, Shape{rows, columns}, all.data()), inputs);
  return {to_host<int32_t>(result.tokens), to_host<float>(result.measures)};
}

// A reference that is farther than this from a boundary has the same token.
constexpr double kNear = 1e-5;

// Compares each row, and returns how many are too near to a boundary to tell.
int compare(const std::vector<std::vector<float>>& logits, const std::vector<RowCase>& cases) {
  const Outcome outcome = sampled(logits, cases);
  int near = 0;
  for (size_t row = 0; row < cases.size(); ++row) {
    SCOPED_TRACE(testing::Message() << "row " << row << ", " << logits[row].size() << " logits");
    const Expected expected = reference(logits[row], cases[row]);
    if (expected.draw_margin < kNear || expected.cut_margin < kNear) {
      ++near;
      continue;
    }
    EXPECT_EQ(outcome.tokens[row], expected.token);
    if (outcome.tokens[row] != expected.token) continue;
    const float* const measures = &outcome.measures[3 * row];
    EXPECT_NEAR(measures[0], expected.log_probability, kNear * (1 + std::abs(expected.log_probability)));
    EXPECT_NEAR(measures[1], expected.draw_margin, kNear);
    EXPECT_NEAR(measures[2], expected.cut_margin, kNear);
  }
  return near;
}

std::vector<RowCase> parameter_sets() {
  return {{.temperature = 0},
          {.temperature = 0.8f},
          {.temperature = 0.8f, .top_p = 0.95f},
          {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f},
          {.temperature = 1.7f, .top_k = 5},
          {.temperature = 1, .min_p = 0.1f},
          {.temperature = 0.1f, .top_p = 0.3f},
          {.temperature = 1, .top_k = 1},
          {.temperature = 1, .top_p = 0},
          {.temperature = 50, .top_k = 1000, .top_p = 0.999f}};
}

std::vector<float> normal_row(std::mt19937_64& random, size_t columns, float deviation) {
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> row(columns);
  std::ranges::generate(row, [&] { return normal(random); });
  return row;
}

TEST(Sampling, GivesWhatASortedRowGives) {
  std::mt19937_64 random(11);
  int rows = 0, near = 0;
  for (const size_t columns : {1, 2, 31, 257, 1000, 4099}) {
    for (const float deviation : {0.3f, 3.0f, 12.0f}) {
      std::vector<std::vector<float>> logits;
      std::vector<RowCase> cases;
      for (RowCase c : parameter_sets()) {
        for (int draw = 0; draw < 4; ++draw) {
          c.bits = draw == 0 ? 0 : draw == 1 ? ~uint64_t{0} : random();
          logits.push_back(normal_row(random, columns, deviation));
          cases.push_back(c);
        }
      }
      near += compare(logits, cases);
      rows += static_cast<int>(cases.size());
    }
  }
  EXPECT_LE(near, rows / 3);  // among them the largest draw, next to 1
}

TEST(Sampling, GivesTheLowestOfEqualTokens) {
  std::mt19937_64 random(12);
  std::vector<std::vector<float>> logits;
  std::vector<RowCase> cases;
  for (RowCase c : parameter_sets()) {
    for (const int levels : {1, 2, 7}) {
      std::vector<float> row(3001);
      std::ranges::generate(row, [&] { return static_cast<float>(random() % static_cast<uint64_t>(levels)); });
      c.bits = random();
      logits.push_back(row);
      cases.push_back(c);
    }
  }
  EXPECT_LE(compare(logits, cases), 7);  // of 3,001 equal tokens many sums are whole
}

TEST(Sampling, SkipsValuesThatAreNotNumbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), large = std::numeric_limits<float>::max();
  const std::vector<std::vector<float>> rows = {{nan, -kInfinity, nan, -kInfinity, nan},
                                                {nan, 1, -kInfinity, 2, nan},
                                                {-kInfinity, kInfinity, large, 0, kInfinity},
                                                {-large, -large, nan, -large, -kInfinity},
                                                {0.0f, -0.0f, 1e-45f, -1e-45f, nan}};
  std::mt19937_64 random(13);
  for (const RowCase& set : parameter_sets()) {
    std::vector<RowCase> cases(rows.size(), set);
    for (RowCase& c : cases) c.bits = random();
    compare(rows, cases);
    if (set.temperature != 0) continue;
    EXPECT_EQ(sampled(rows, cases).tokens, (std::vector<int32_t>{-1, 3, 1, 0, 2}));
  }
}

TEST(Sampling, AppliesBiasAndPenaltiesBeforeTheRest) {
  std::mt19937_64 random(14);
  std::vector<std::vector<float>> logits;
  std::vector<RowCase> cases;
  for (RowCase c : parameter_sets()) {
    c.repeat = 1.3f;
    c.frequency = 0.4f;
    c.presence = -0.7f;
    for (int n = 0; n < 4; ++n) {
      c.edits.clear();
      for (int32_t token = n; token < 300; token += 1 + n) {
        if (n > 0)
          c.edits.push_back({token, token % 4, token == 7 ? -kInfinity : 0.1f * static_cast<float>(token % 9)});
      }
      c.bits = random();
      logits.push_back(normal_row(random, 523, 2));
      cases.push_back(c);
    }
  }
  EXPECT_LE(compare(logits, cases), 4);
}

TEST(Sampling, FindsTokensOfALargeVocabulary) {
  std::mt19937_64 random(15);
  for (const size_t columns : {size_t{50257}, size_t{128256}}) {
    std::vector<std::vector<float>> logits;
    std::vector<RowCase> cases;
    for (RowCase c : parameter_sets()) {
      c.bits = random();
      logits.push_back(normal_row(random, columns, cases.size() % 2 == 0 ? 1.0f : 4.0f));
      cases.push_back(c);
    }
    EXPECT_LE(compare(logits, cases), 3);
  }
}

TEST(Sampling, RefusesInputsThatDoNotFit) {
  const Tensor logits = cases::refused_input(DType::f32, {2, 5}), settings = cases::refused_input(DType::f32, {2, 7}),
               draws = cases::refused_input(DType::i32, {2, 2});
  const auto message = [](const std::function<void()>& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(message([&] {
              sample_tokens(draws, {settings, draws});
            }),
            "[sampling] does not take i32 of shape (2, 2) (only f32)");
  EXPECT_EQ(message([&] {
              sample_tokens(logits, {logits, draws});
            }),
            "[sampling] settings must have shape (2, 7), not (2, 5)");
  EXPECT_EQ(message([&] {
              sample_tokens(logits, {settings, settings});
            }),
            "[sampling] does not take f32 of shape (2, 7) (only i32)");
  EXPECT_EQ(message([&] { sample_tokens(logits, {.settings = settings, .draws = draws, .bias = logits}); }),
            "[sampling] edits and bias must come together");
}

}  // namespace
}  // namespace gabbro::sampling_test
