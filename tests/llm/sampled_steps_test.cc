// Runner::step_tokens against the sampler on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <random>
#include <string_view>

#include "gabbro/graph/eval.h"
#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/engine/runner.h"
#include "src/graph/node.h"
#include "tests/llm/tiny_model.h"

namespace gabbro::sampled_steps_test {
namespace {

constexpr int64_t kV = test::TinyModel::kV;

std::vector<SamplerOptions> parameter_sets() {
  const SamplerOptions off{.temperature = 0.8f, .top_k = 0, .top_p = 1, .min_p = 0};
  std::vector<SamplerOptions> sets(9, off);
  sets[1].top_p = 0.95f;
  sets[2] = {};
  sets[3].top_k = 7;
  sets[4].min_p = 0.1f;
  sets[5].top_p = 0.9f;
  sets[5].repeat_penalty = 1.3f;
  sets[5].frequency_penalty = 0.2f;
  sets[5].presence_penalty = 0.1f;
  sets[6].logit_bias = {{3, 2.5f}, {4, -HUGE_VALF}, {11, -1.0f}};
  sets[7].temperature = 0;
  sets[8].temperature = 0;
  sets[8].repeat_penalty = 1.5f;
  return sets;
}

struct OpResult {
  int32_t token;
  float draw_margin, cut_margin;
};

std::vector<OpResult> by_op(Device& device, const std::vector<float>& logits, std::span<Sampler* const> samplers) {
  std::vector<sampling::Row> rows;
  for (const Sampler* sampler : samplers) rows.push_back(sampler->row(0, true));
  const auto count = std::ssize(rows);
  const Tensor x = device.upload(DType::f32, Shape{count, std::ssize(logits) / count}, logits.data());
  const SampledTokens result = sample_tokens(sampling::masked_logits(x, rows), sampling::upload_rows(device, rows));
  const auto tokens = to_host<int32_t>(result.tokens);
  const auto measures = to_host<float>(result.measures);
  std::vector<OpResult> results;
  for (size_t i = 0; i < tokens.size(); ++i) results.push_back({tokens[i], measures[3 * i + 1], measures[3 * i + 2]});
  return results;
}

// Seeds of each set of parameters: $GABBRO_SAMPLING_SEEDS, or 1,000; 100 on a simulator, which takes 10 ms a row.
size_t seed_count(const Device& device) {
  if (const char* const wanted = std::getenv("GABBRO_SAMPLING_SEEDS")) return static_cast<size_t>(std::atoi(wanted));
  return std::string_view(device.facts().id).starts_with("sim") ? 100 : 1000;
}

// The token of each seed is the host's: on the CPU always, elsewhere if draw and cut are far from boundaries. The
// logits have a few likely tokens, as in models: among many equally likely ones each draw is near a boundary.
TEST(SampledTokens, AreThoseOfTheHost) {
  const auto device = open_device("auto", {.threads = 2});
  const bool exact = device->host_accessible();
  constexpr size_t kRows = 50, kColumns = 1009;
  const size_t seeds = seed_count(*device);
  std::mt19937_64 random(5);
  int near = 0, tokens = 0;
  for (const SamplerOptions& set : parameter_sets()) {
    for (size_t first = 0; first < seeds; first += kRows) {
      std::deque<Sampler> samplers;
      std::vector<Sampler*> pointers;
      std::vector<float> logits;
      std::normal_distribution<float> normal(0, 6 + static_cast<float>(first % 200) / 50);
      for (size_t i = 0; i < kRows; ++i) {
        SamplerOptions options = set;
        options.seed = 1 + first + i;
        pointers.push_back(&samplers.emplace_back(options, kColumns));
        if (i % 3 == 0) {
          std::vector<uint64_t> words(kColumns / 64 + i % 2);  // without bits for the last tokens, or with them
          for (uint64_t& word : words) word = random() & random();
          samplers.back().allow(words);
        }
        for (int token = 0; token < 20; ++token) pointers.back()->accept(static_cast<int32_t>(random() % kColumns));
        for (size_t j = 0; j < kColumns; ++j) logits.push_back(normal(random));
      }
      const std::vector<OpResult> found = by_op(*device, logits, pointers);
      for (size_t i = 0; i < kRows; ++i) {
        const int32_t expected = samplers[i].sample(std::span(logits).subspan(i * kColumns, kColumns));
        ++tokens;
        const bool is_near = found[i].draw_margin < 1e-5f || found[i].cut_margin < 1e-5f;
        near += is_near ? 1 : 0;
        if (!exact && is_near) continue;
        EXPECT_EQ(found[i].token, expected) << "seed " << 1 + first + i;
      }
    }
  }
  std::cout << near << " of " << tokens << " tokens near a boundary\n";
  EXPECT_LE(near, std::max(tokens / 1000, 2)) << "of " << tokens;
}

class SampledSteps : public testing::Test {
 protected:
  static std::shared_ptr<Engine> load(int64_t sequences) {
    return Engine::load(test::tiny_llama().write("sampled"), {.threads = 2, .sequences = sequences});
  }
  static std::vector<int32_t> prompt(size_t number) {
    std::vector<int32_t> ids(3 + 5 * number);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>((i * 7 + number * 31 + 3) % kV);
    return ids;
  }

  struct Text {
    Text(const std::shared_ptr<Engine>& engine, const SamplerOptions& options, size_t number)
        : sequence(engine), sampler(options, kV), next(prompt(number)) {
      for (const int32_t token : next) sampler.accept(token);
    }
    void take(int32_t token) {
      found.push_back(token);
      sampler.accept(token);
      next = {token};
    }
    Sequence sequence;
    Sampler sampler;
    std::vector<int32_t> next, found{};
  };

  static std::vector<Chunk> chunks_of(std::deque<Text>& texts) {
    std::vector<Chunk> chunks;
    for (Text& text : texts) chunks.push_back({&text.sequence, text.next});
    return chunks;
  }
  static void by_runner(Runner& runner, std::deque<Text>& texts, int count, bool goes_on) {
    for (int i = 0; i < count; ++i) {
      std::vector<Sampler*> samplers;
      for (Text& text : texts) samplers.push_back(&text.sampler);
      const std::span<const int32_t> ids = runner.step_tokens(chunks_of(texts), samplers, nullptr, goes_on);
      ASSERT_EQ(ids.size(), texts.size());
      for (size_t row = 0; row < texts.size(); ++row) texts[row].take(ids[row]);
    }
  }
  static void by_host(Runner& runner, std::deque<Text>& texts, int count) {
    for (int i = 0; i < count; ++i) {
      const std::span<const float> logits = runner.step(chunks_of(texts));
      for (size_t row = 0; row < texts.size(); ++row)
        texts[row].take(texts[row].sampler.sample(logits.subspan(row * kV, kV)));
    }
  }
  static std::deque<Text> texts_of(const std::shared_ptr<Engine>& engine, const std::vector<SamplerOptions>& sets) {
    std::deque<Text> texts;
    for (size_t i = 0; i < sets.size(); ++i) {
      SamplerOptions options = sets[i];
      options.seed = 100 + i;
      texts.emplace_back(engine, options, i);
    }
    return texts;
  }
};

// Rows of one batch with different parameters, some of them not for the device.
TEST_F(SampledSteps, OfMixedBatchesGiveTheTokensOfTheHost) {
  std::vector<SamplerOptions> sets = parameter_sets();
  sets.resize(sets.size() + 2);
  sets[sets.size() - 2].mirostat = 2;
  sets[sets.size() - 1].dry_multiplier = 0.8f;
  const auto engine = load(2 * std::ssize(sets));
  Runner runner(engine), plain(engine);
  std::deque<Text> texts = texts_of(engine, sets), expected = texts_of(engine, sets);
  by_runner(runner, texts, 8, true);
  by_host(plain, expected, 8);
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(texts[i].found, expected[i].found) << i;
}

// Rows without penalties are queued while the step before runs.
TEST_F(SampledSteps, AreQueuedIfNoChoiceDependsOnTheTokenBefore) {
  std::vector<SamplerOptions> sets = parameter_sets();
  sets.erase(sets.begin() + 8);
  sets.erase(sets.begin() + 5);
  const auto engine = load(2 * std::ssize(sets));
  Runner runner(engine), plain(engine);
  std::deque<Text> texts = texts_of(engine, sets), expected = texts_of(engine, sets);
  by_runner(runner, texts, 12, true);
  EXPECT_EQ(runner.steps_queued_before(), engine->facts().device_id == "cpu" ? 0 : 10);
  by_host(plain, expected, 12);
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(texts[i].found, expected[i].found) << i;
  // A sampler that drew meanwhile has another draw than the step that is queued.
  for (std::deque<Text>* const both : {&texts, &expected}) both->front().sampler.take_draw();
  by_runner(runner, texts, 4, true);
  by_host(plain, expected, 4);
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(texts[i].found, expected[i].found) << i;
}

TEST_F(SampledSteps, NeedASamplerForEachRow) {
  const auto engine = load(1);
  Runner runner(engine);
  Sequence sequence(engine);
  const std::vector<int32_t> tokens = prompt(1);
  const Chunk chunk{&sequence, tokens};
  EXPECT_THROW(runner.step_tokens(std::span(&chunk, 1), {}), Error);
  Sampler* const greedy = nullptr;
  EXPECT_EQ(runner.step_tokens(std::span(&chunk, 1), std::span(&greedy, 1)).size(), 1u);
}

// So that a step for it can be one of step_greedy(), and a queued one is found by both.
TEST(SamplerRow, OfAGreedySamplerIsTheDefault) {
  EXPECT_EQ(Sampler({.temperature = 0, .top_k = 5, .mirostat = 1}, 10).row(), sampling::Row{});
  EXPECT_NE(Sampler({.temperature = 0, .logit_bias = {{1, 0.5f}}}, 10).row(), sampling::Row{});
}

TEST(CanSampleOnDevice, IsFalseForStepsThatItHasNot) {
  using sampling::can_sample_on_device;
  EXPECT_TRUE(can_sample_on_device({}));
  EXPECT_TRUE(can_sample_on_device({.temperature = 0, .mirostat = 1}));  // the largest logit, whatever follows
  for (const SamplerOptions& options :
       {SamplerOptions{.typical_p = 0.9f}, SamplerOptions{.dry_multiplier = 1}, SamplerOptions{.xtc_probability = 0.5f},
        SamplerOptions{.mirostat = 1}, SamplerOptions{.logit_bias = {{1, 0.5f}, {1, 0.25f}}}})
    EXPECT_FALSE(can_sample_on_device(options));
}

}  // namespace
}  // namespace gabbro::sampled_steps_test
