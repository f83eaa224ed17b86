// Chains of steps by their draws (tests/reference/make_sampler_fixture.py), and the options that a sampler refuses.
#include "gabbro/engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "src/base/error.h"
#include "src/engine/model_text.h"
#include "src/engine/sampling/candidates.h"
#include "src/engine/sampling/row.h"
#include "src/engine/sampling/test_fixture.h"
#include "src/text/tokenizer.h"

namespace gabbro {
namespace {

using sampling::Candidates;
using sampling::fixture;
using sampling::logits_named;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Sampler, ReadsSequenceBreakersByTheTokenizer) {
  const auto tokenizer = read_tokenizer(Checkpoint::open(GABBRO_SOURCE_DIR "/tests/data/tiny/tiny-f16.gguf"));
  const auto choice = [&](std::vector<std::string> breakers) {
    SamplerOptions options;
    options.temperature = 0;
    options.dry_multiplier = 100;
    options.dry_sequence_breakers = std::move(breakers);
    Sampler sampler(options, tokenizer.size(), &tokenizer);
    for (const char c : std::string("xy:z xy:")) sampler.accept(tokenizer.encode(std::string(1, c))[0]);
    std::vector<float> logits(static_cast<size_t>(tokenizer.size()), 0.0f);
    logits['z'] = 2;  // ids of one byte are that byte
    logits['q'] = 1;
    return sampler.sample(logits);
  };
  EXPECT_EQ(choice({}), 'q');     // "xy:" was followed by "z" before
  EXPECT_EQ(choice({":"}), 'z');  // nothing behind the colon is a repetition
  EXPECT_EQ(choice({"y"}), 'z');  // one token is less than the allowed length
  EXPECT_EQ(choice({"x"}), 'q');
}

SamplerOptions chain_options(const nlohmann::json& o) {
  SamplerOptions options;
  options.temperature = o["temperature"];
  options.top_k = o["top_k"];
  options.top_p = o["top_p"];
  options.min_p = o["min_p"];
  options.typical_p = o.value("typical_p", 1.0f);
  options.seed = 12345;
  return options;
}

// Sanitizers make a draw ten times slower, and see all there is to see in the first.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kChainDraws = 5000;
#else
constexpr int kChainDraws = 40000;
#endif

TEST(Sampler, DrawsFollowTheChainsDistribution) {
  for (const auto& chain : fixture()["chains"]) {
    Sampler sampler(chain_options(chain["options"]), 257);
    const auto logits = logits_named(chain["logits"]);
    std::map<int, int> seen;
    for (int i = 0; i < kChainDraws; ++i) ++seen[sampler.sample(logits)];

    const auto ids = chain["ids"].get<std::vector<int>>();
    const auto probabilities = chain["probabilities"].get<std::vector<double>>();
    double chi_square = 0, rare_expected = 0;
    int bins = 0, rare_seen = 0, total = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      const double expected = probabilities[i] * kChainDraws;
      total += seen[ids[i]];
      if (expected < 5) {  // the test's approximation needs five a bin: the rare ones share one
        rare_expected += expected;
        rare_seen += seen[ids[i]];
        continue;
      }
      chi_square += std::pow(seen[ids[i]] - expected, 2) / expected;
      ++bins;
    }
    if (rare_expected >= 5) {
      chi_square += std::pow(rare_seen - rare_expected, 2) / rare_expected;
      ++bins;
    }
    EXPECT_EQ(total, kChainDraws) << "a token outside the chain's candidates was drawn";
    const double freedom = bins - 1;
    // Mean n and variance 2n; four standard deviations, and the seed is fixed.
    EXPECT_LT(chi_square, freedom + 4 * std::sqrt(2 * freedom)) << chain["options"] << chain["logits"];
  }
}

TEST(Sampler, TemperatureZeroTakesTheFirstOfTheLargest) {
  SamplerOptions options;
  options.temperature = 0;
  for (const size_t size : {1, 2, 63, 64, 65, 1009}) {
    for (const size_t first : {size_t{0}, size / 2, size - 1}) {
      std::vector<float> logits(size, -3.5f);
      for (size_t i = first; i < size; i += 7) logits[i] = 2.25f;
      Sampler sampler(options, static_cast<int64_t>(size));
      EXPECT_EQ(sampler.sample(logits), static_cast<int>(first)) << size;
    }
  }
}

TEST(Sampler, TopKOfLargeVocabulariesIsExact) {
  std::mt19937 random(3);
  for (const int64_t size : {1, 40, 41, 49152, 100003}) {
    std::vector<float> logits(static_cast<size_t>(size));
    for (float& x : logits) x = static_cast<float>(random() % 5000) / 100.0f;  // many ties
    if (size == 49152) std::sort(logits.begin(), logits.end());                // the worst order for a selection
    Candidates few, all;
    few.assign_top(logits, 40);
    few.sort_prefix(40);
    all.assign_top(logits, 0);
    all.sort_prefix(all.items.size());
    ASSERT_EQ(few.items.size(), static_cast<size_t>(std::min<int64_t>(40, size)));
    for (size_t i = 0; i < few.items.size(); ++i) EXPECT_EQ(few.items[i].id, all.items[i].id) << size << " " << i;
  }
}

TEST(Sampler, SeedsReproduceAndDiffer) {
  const auto logits = logits_named("flat");
  const auto series = [&](uint64_t seed) {
    SamplerOptions options;
    options.temperature = 1;
    options.seed = seed;
    Sampler sampler(options, 257);
    std::vector<int32_t> ids;
    for (int i = 0; i < 50; ++i) {
      ids.push_back(sampler.sample(logits));
      sampler.accept(ids.back());
    }
    return ids;
  };
  EXPECT_EQ(series(42), series(42));
  EXPECT_NE(series(42), series(43));
  Sampler random({.seed = 0}, 257);
  EXPECT_NE(random.seed(), 0u);
  EXPECT_EQ(series(random.seed()), series(random.seed()));
}

TEST(Sampler, XtcHappensAsOftenAsAsked) {
  std::vector<float> logits = {2, 1.9f, 1.8f, -9, -9};  // three above the threshold
  SamplerOptions options;
  options = {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .xtc_probability = 0.25f, .seed = 9};
  Sampler sampler(options, 5);
  int first = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) first += sampler.sample(logits) == 0;
  const double share = std::exp(2) / (std::exp(2) + std::exp(1.9) + std::exp(1.8) + 2 * std::exp(-9));
  const double expected = 0.75 * share * kDraws;
  EXPECT_NEAR(first, expected, 4 * std::sqrt(expected));
}

TEST(Sampler, BiasBansAndForces) {
  const auto logits = logits_named("spread");
  const int best = sampling::argmax(logits);
  SamplerOptions options;
  options.temperature = 0;
  options.logit_bias = {{best, -kInf}};
  Sampler banned(options, 257);
  const int second = banned.sample(logits);
  EXPECT_NE(second, best);
  options.logit_bias = {{11, 100.0f}};
  Sampler forced(options, 257);
  EXPECT_EQ(forced.sample(logits), 11);
  options.logit_bias.clear();
  Sampler plain(options, 257);
  EXPECT_EQ(plain.sample(logits), best);
}

TEST(Sampler, RepeatPenaltyCountsThePromptToo) {
  std::vector<float> logits = {1.0f, 2.0f, 1.9f};
  Sampler sampler({.temperature = 0, .repeat_penalty = 1.5f}, 3);
  EXPECT_EQ(sampler.sample(logits), 1);
  sampler.accept(1);
  EXPECT_EQ(sampler.sample(logits), 2);
}

TEST(Sampler, LogitsThatAreNotNumbers) {
  for (const float temperature : {0.0f, 1.0f}) {
    for (const int mirostat : {0, 1, 2}) {
      SamplerOptions options;
      options.temperature = temperature;
      options.mirostat = mirostat;
      Sampler sampler(options, 100);
      std::vector<float> logits(100, kNan);
      EXPECT_THROW(sampler.sample(logits), Error);
      logits[3] = -kInf;
      EXPECT_THROW(sampler.sample(logits), Error);
      logits[70] = -1000;
      EXPECT_EQ(sampler.sample(logits), 70);
      logits[71] = kInf;
      EXPECT_EQ(sampler.sample(logits), 71);
    }
  }
}

TEST(Sampler, ExtremeLogitsAndTemperaturesStayInside) {
  std::vector<float> logits(300, -std::numeric_limits<float>::max());
  logits[5] = std::numeric_limits<float>::max();
  for (const float temperature : {1e-30f, 0.5f, 100.0f}) {
    for (const int mirostat : {0, 1, 2}) {
      SamplerOptions options;
      options = {.temperature = temperature, .top_k = 0, .typical_p = 0.5f, .xtc_probability = 1, .mirostat = mirostat};
      Sampler sampler(options, 300);
      EXPECT_EQ(sampler.sample(logits), 5);
    }
  }
}

TEST(Sampler, RejectsWhatNoOptionCanBe) {
  using testing::HasSubstr;
  const auto message = [](auto change) -> std::string {
    SamplerOptions options;
    change(options);
    try {
      Sampler sampler(options, 100);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(message([](auto& o) { o.temperature = -1; }), HasSubstr("temperature"));
  EXPECT_THAT(message([](auto& o) { o.temperature = kNan; }), HasSubstr("temperature"));
  EXPECT_THAT(message([](auto& o) { o.temperature = kInf; }), HasSubstr("temperature"));
  EXPECT_THAT(message([](auto& o) { o.top_k = -1; }), HasSubstr("top-k"));
  EXPECT_THAT(message([](auto& o) { o.top_p = 1.01f; }), HasSubstr("top-p"));
  EXPECT_THAT(message([](auto& o) { o.top_p = kNan; }), HasSubstr("top-p"));
  EXPECT_THAT(message([](auto& o) { o.min_p = -0.1f; }), HasSubstr("min-p"));
  EXPECT_THAT(message([](auto& o) { o.typical_p = 2; }), HasSubstr("typical-p"));
  EXPECT_THAT(message([](auto& o) { o.repeat_penalty = 0; }), HasSubstr("repeat-penalty"));
  EXPECT_THAT(message([](auto& o) { o.frequency_penalty = kInf; }), HasSubstr("frequency-penalty"));
  EXPECT_THAT(message([](auto& o) { o.presence_penalty = kNan; }), HasSubstr("presence-penalty"));
  EXPECT_THAT(message([](auto& o) { o.penalty_window = -2; }), HasSubstr("penalty-window"));
  EXPECT_THAT(message([](auto& o) { o.dry_multiplier = -1; }), HasSubstr("dry-multiplier"));
  EXPECT_THAT(message([](auto& o) { o.dry_base = 0; }), HasSubstr("dry-base"));
  EXPECT_THAT(message([](auto& o) { o.dry_allowed_length = 0; }), HasSubstr("dry-allowed-length"));
  EXPECT_THAT(message([](auto& o) { o.dry_sequence_breakers = {"a", ""}; }), HasSubstr("dry-sequence-breaker"));
  EXPECT_THAT(message([](auto& o) { o.dry_sequence_breakers = {std::string(41, 'a')}; }), HasSubstr("not 41"));
  EXPECT_THAT(message([](auto& o) { o.xtc_probability = 1.5f; }), HasSubstr("xtc-probability"));
  EXPECT_THAT(message([](auto& o) { o.xtc_threshold = kNan; }), HasSubstr("xtc-threshold"));
  EXPECT_THAT(message([](auto& o) { o.mirostat = 3; }), HasSubstr("mirostat"));
  EXPECT_THAT(message([](auto& o) { o.mirostat_tau = -1; }), HasSubstr("mirostat-tau"));
  EXPECT_THAT(message([](auto& o) { o.mirostat_eta = kNan; }), HasSubstr("mirostat-eta"));
  EXPECT_THAT(message([](auto& o) { o.logit_bias = {{100, 1.0f}}; }), HasSubstr("token 100"));
  EXPECT_THAT(message([](auto& o) { o.logit_bias = {{1, kNan}}; }), HasSubstr("logit-bias"));
  EXPECT_THAT(message([](auto& o) { o.top_logprobs = -2; }), HasSubstr("top-logprobs"));
  EXPECT_EQ(message([](auto& o) { o.top_k = 1 << 30; }), "accepted");

  Sampler sampler({}, 100);
  EXPECT_THROW(sampler.accept(100), Error);
  EXPECT_THROW(sampler.accept(-1), Error);
  EXPECT_THROW(sampler.sample(std::vector<float>(99)), Error);
}

TEST(Sampler, ScoresAreOfTheLogitsWithoutItsSteps) {
  // Probabilities 1/2, 1/4, 1/8, 1/8 and 0.
  const std::vector<float> logits = {std::log(4.0f), std::log(2.0f), 0, 0, -kInf, kNan};
  SamplerOptions options{.temperature = 0, .top_k = 1, .logit_bias = {{2, 100.0f}}, .top_logprobs = 3};
  Sampler sampler(options, 6);
  EXPECT_FALSE(sampler.is_greedy());
  EXPECT_FALSE(sampler.row().on_device);
  EXPECT_EQ(sampler.sample(logits), 2);
  const TokenScore& score = sampler.last_score();
  EXPECT_EQ(score.token, 2);
  EXPECT_NEAR(score.logprob, std::log(0.125), 1e-6);
  ASSERT_EQ(score.top.size(), 3U);
  EXPECT_EQ(score.top[0].first, 0);
  EXPECT_NEAR(score.top[0].second, std::log(0.5), 1e-6);
  EXPECT_EQ(score.top[2].first, 2);  // the lowest id of equals
  options.top_logprobs = 100;
  Sampler all(options, 6);
  all.sample(logits);
  EXPECT_EQ(all.last_score().top.size(), 4U);  // impossible tokens are left out
}

TEST(Sampler, BannedTokensAreNotChosen) {
  const std::vector<float> logits = {1, 9, 5, 7};
  for (const float temperature : {0.0f, 0.01f}) {
    Sampler sampler({.temperature = temperature, .seed = 1}, 4);
    sampler.ban({1, 3});
    EXPECT_FALSE(sampler.is_greedy());
    EXPECT_EQ(sampler.sample(logits), 2);
    const sampling::Row row = sampler.row();
    ASSERT_EQ(row.edits.size(), 2U);
    EXPECT_EQ(row.edits[1].token, 3);
    EXPECT_EQ(row.edits[1].bias, -kInf);
    sampler.ban({});
    EXPECT_EQ(sampler.sample(logits), 1);
  }
}

}  // namespace
}  // namespace gabbro
