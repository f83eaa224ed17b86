// Steps of several sequences, against the same sequences alone.
#include "src/engine/runner.h"
#include "src/engine/largest_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <utility>

#include "gabbro/graph/eval.h"
#include "gabbro/ops/create.h"
#include "src/base/error.h"
#include "src/engine/batch.h"
#include "src/engine/sampling/candidates.h"
#include "src/ops/kv_type.h"
#include "tests/llm/cache_tolerance.h"
#include "tests/llm/runner_fixture.h"
#include "tests/llm/tiny_model.h"

namespace gabbro {
namespace {

using test::greedy;
using test::RunnerTest;
using test::tiny_llama;
using test::TinyModel;

constexpr int64_t kV = TinyModel::kV;

TEST(LargestIds, AreTheFirstOfEqualsAndNoneWhereNotAllAreNumbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {1, 5, 5, -2, nan, 9, 3, 1, -inf, 2, 1, -inf, 7, inf, 7, 0, -4, -4, -5, -4};
  const Tensor rows = tensor(open_device("auto", {.threads = 2}), logits, Shape{5, 4});
  EXPECT_EQ(to_host<int32_t>(largest_ids(rows)), (std::vector<int32_t>{1, -1, 1, -1, 0}));
}

// Prompts and single tokens, mixed: the ids are the indices of the largest logits.
TEST_F(RunnerTest, StepGreedyTakesTheLargestLogits) {
  const auto engine = load(6);
  Runner runner(engine), other(engine);
  std::deque<Sequence> one, two;
  std::vector<std::vector<int32_t>> tokens;
  for (int64_t i = 0; i < 3; ++i) {
    one.emplace_back(engine);
    two.emplace_back(engine);
    tokens.push_back(prompt(i, 4 + 9 * static_cast<size_t>(i)));
  }
  for (int step = 0; step < 3; ++step) {
    std::vector<Chunk> a, b;
    for (size_t i = 0; i < 3; ++i) {
      const bool wanted = step != 1 || i != 1;
      a.push_back({&one[i], tokens[i], wanted ? Chunk::Rows::kLast : Chunk::Rows::kNone});
      b.push_back({&two[i], tokens[i], a.back().rows});
    }
    const std::vector<std::vector<float>> rows = rows_of(runner.step(a));
    const std::span<const int32_t> ids = other.step_greedy(b);
    ASSERT_EQ(ids.size(), rows.size());
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(ids[i], best(rows[i])) << "step " << step << " row " << i;
    for (size_t i = 0; i < 3; ++i) tokens[i] = {static_cast<int32_t>((step * 5 + static_cast<int>(i) * 11) % kV)};
    if (step == 0) tokens[1] = prompt(7, 5);
  }
}

TEST_F(RunnerTest, GreedyTokensAreThoseOfEachSequenceAlone) {
  constexpr size_t kSequences = 16;
  constexpr int kTokens = 12;
  const auto engine = load(kSequences);
  Runner runner(engine);
  std::deque<Sequence> sequences;
  std::vector<std::vector<int32_t>> prompts, tokens(kSequences);
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < kSequences; ++i) {
    prompts.push_back(prompt(static_cast<int64_t>(i), 3 + 5 * i));
    sequences.emplace_back(engine);
  }
  for (size_t i = 0; i < kSequences; ++i) chunks.push_back({&sequences[i], prompts[i]});
  std::vector<std::vector<float>> rows = rows_of(runner.step(chunks));
  for (int t = 0; t < kTokens; ++t) {
    ASSERT_EQ(rows.size(), kSequences);
    for (size_t i = 0; i < kSequences; ++i) {
      tokens[i].push_back(best(rows[i]));
      chunks[i].tokens = std::span(&tokens[i].back(), 1);
    }
    rows = rows_of(runner.step(chunks));
  }
  for (size_t i = 0; i < kSequences; ++i) {
    EXPECT_EQ(tokens[i], greedy(load(1), prompts[i], kTokens)) << i;
    EXPECT_EQ(sequences[i].tokens().size(), prompts[i].size() + kTokens);
  }
}

// In a step of three, which is padded to four, what the others hold changes no bit.
TEST_F(RunnerTest, LogitsDependOnNoOtherSequenceOfTheStep) {
  const auto engine = load(9);
  Runner runner(engine);
  const std::vector<int32_t> own = prompt(0, 70);
  const auto logits_among = [&](int64_t first, size_t place) {
    std::deque<Sequence> sequences;
    std::vector<std::vector<int32_t>> prompts;
    for (size_t i = 0; i < 3; ++i) {
      sequences.emplace_back(engine);
      prompts.push_back(i == place ? own : prompt(first + static_cast<int64_t>(i), 5 + 20 * i));
      const Chunk chunk{&sequences[i], prompts[i]};
      runner.step(std::span(&chunk, 1));
    }
    const int32_t token = 11;
    std::vector<Chunk> chunks;
    for (Sequence& sequence : sequences) chunks.push_back({&sequence, std::span(&token, 1)});
    return rows_of(runner.step(chunks))[place];
  };
  const std::vector<float> expected = logits_among(1, 0);
  EXPECT_EQ(logits_among(20, 0), expected);
  EXPECT_EQ(logits_among(40, 2), expected);
}

// A part of a prompt and single tokens in one step; rows that are wanted come in the order of the chunks.
TEST_F(RunnerTest, MixesPromptsAndSingleTokens) {
  const auto engine = load(3);
  Runner runner(engine);
  Sequence a(engine), b(engine);
  const std::vector<int32_t> first = prompt(1, 20), second = prompt(2, 33);
  const Chunk begin{&a, first, Chunk::Rows::kNone};
  EXPECT_TRUE(runner.step(std::span(&begin, 1)).empty());
  const int32_t token = 5;
  const Chunk mixed[] = {{&b, second, Chunk::Rows::kAll}, {&a, std::span(&token, 1), Chunk::Rows::kLast}};
  const auto rows = rows_of(runner.step(mixed));
  ASSERT_EQ(rows.size(), second.size() + 1);
  Session alone(engine);
  const auto close = [](std::span<const float> expected, std::span<const float> actual) {
    ASSERT_EQ(expected.size(), actual.size());
    const float largest = std::ranges::max(expected, {}, [](float x) { return std::fabs(x); });
    const double tolerance = std::fabs(largest) * test::cache_tolerance(DType::f16, TinyModel::kL, 33);
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], tolerance) << i;
  };
  const auto all = alone.append_all_logits(second);
  for (size_t i = 0; i < second.size(); ++i) close(all.subspan(i * kV, kV), rows[i]);
  alone.truncate(0);
  alone.append(first);
  close(alone.append(std::span(&token, 1)), rows.back());
}

TEST_F(RunnerTest, WhatThrowsLeavesSequencesAsBefore) {
  const auto engine = load(1, 128);  // two pages
  Runner runner(engine);
  Sequence a(engine), b(engine);
  const std::vector<int32_t> long_one = prompt(1, 100), short_one = prompt(2, 30);
  const auto error_of = [&](std::vector<Chunk> chunks, const std::atomic<bool>* cancel = nullptr) {
    try {
      runner.step(chunks, cancel);
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(error_of({{&a, long_one}, {&b, short_one}}), testing::HasSubstr("the KV cache is full"));
  EXPECT_TRUE(a.tokens().empty() && b.tokens().empty());
  EXPECT_THAT(error_of({{&a, short_one}, {&a, short_one}}), testing::HasSubstr("each sequence of its engine once"));
  const int32_t outside = kV;
  EXPECT_THAT(error_of({{&a, short_one}, {&b, std::span(&outside, 1)}}), testing::HasSubstr("outside the vocabulary"));
  EXPECT_THAT(error_of({{&a, prompt(1, 129)}}), testing::HasSubstr("more than the context"));
  const std::atomic<bool> canceled = true;
  EXPECT_NE(error_of({{&a, long_one}}, &canceled), "");
  EXPECT_TRUE(a.tokens().empty());
  EXPECT_EQ(error_of({{&a, long_one}}), "");  // both pages are free again
  a.truncate(64);
  EXPECT_EQ(error_of({{&b, short_one}}), "");
  EXPECT_THROW(b.truncate(31), Error);
}

// A beginning that another sequence computed is taken over, whether that one is still there or not.
TEST_F(RunnerTest, ABeginningIsComputedOnce) {
  const auto engine = load(2);
  Runner runner(engine);
  const std::vector<int32_t> whole = prompt(1, 200);
  const auto logits_after = [&](Sequence& sequence, std::span<const int32_t> tokens) {
    const Chunk chunk{&sequence, tokens};
    const auto logits = runner.step(std::span(&chunk, 1));
    return std::vector<float>(logits.begin(), logits.end());
  };
  Session alone(load(1));
  const auto span = alone.append(whole);
  const std::vector<float> expected(span.begin(), span.end());
  {
    Sequence first(engine);
    EXPECT_EQ(first.reuse(whole), 0);
    EXPECT_EQ(logits_after(first, whole), expected);
    Sequence second(engine);
    EXPECT_EQ(second.reuse(whole), 192);  // three pages of 64
    EXPECT_EQ(second.reuse(whole), 192);
    logits_after(second, std::span(whole).subspan(192));
  }
  Sequence third(engine);
  std::vector<int32_t> other = whole;
  other[100] ^= 1;
  EXPECT_EQ(third.reuse(other), 64);
  Sequence fourth(engine);
  EXPECT_EQ(fourth.reuse(std::span(whole).first(128)), 64);  // its last token has to be computed
  EXPECT_EQ(fourth.reuse(std::span(whole).first(129)), 128);
}

// Changing a page that others have, or whose tokens have a name, changes nothing for them.
TEST_F(RunnerTest, PagesAreCopiedWhereTheyAreWritten) {
  for (const DType kv_type : kKvTypes) {
    SCOPED_TRACE(dtype_name(kv_type));
    const auto engine = Engine::load(tiny_llama().write("runner"), {.threads = 2, .sequences = 3, .kv_type = kv_type});
    Runner runner(engine);
    const std::vector<int32_t> begin = prompt(1, 100), one = prompt(2, 40), two = prompt(3, 40);
    const auto step = [&](Sequence& sequence, std::span<const int32_t> tokens) {
      const Chunk chunk{&sequence, tokens};
      const auto logits = runner.step(std::span(&chunk, 1));
      return std::vector<float>(logits.begin(), logits.end());
    };
    const auto expected = [&](std::initializer_list<std::span<const int32_t>> parts) {
      const auto fresh = Engine::load(tiny_llama().write("runner"), {.threads = 2, .sequences = 1, .kv_type = kv_type});
      Runner own(fresh);
      Sequence sequence(fresh);
      std::vector<float> last;
      for (const auto part : parts) {
        const Chunk chunk{&sequence, part};
        const auto logits = own.step(std::span(&chunk, 1));
        last.assign(logits.begin(), logits.end());
      }
      return last;
    };
    Sequence a(engine);
    step(a, begin);
    Sequence b = a;
    EXPECT_EQ(step(a, one), expected({begin, one}));
    EXPECT_EQ(step(b, two), expected({begin, two}));
    EXPECT_EQ(step(a, two), expected({begin, one, two}));
    // A named page is truncated and written again: it is no longer found by its former tokens.
    b.truncate(30);
    step(b, one);
    Sequence c(engine);
    EXPECT_EQ(c.reuse(begin), 64);  // a's page, or the one that b left
    EXPECT_EQ(step(c, std::span(begin).subspan(64)),
              expected({std::span(begin).first(64), std::span(begin).subspan(64)}));
  }
}

// On the simulator: a card's memory comes in steps that are larger than this cache, and the host's is not counted.
TEST_F(RunnerTest, TheCacheOfALongContextGrowsAsItIsUsed) {
  const auto engine = load(1, 16 * TinyModel::kContext);
  if (!engine->facts().device_id.starts_with("sim")) return;
  const std::optional<uint64_t> loaded = engine->memory_peak();
  ASSERT_TRUE(loaded);
  const uint64_t token = engine->facts().kv_bytes_per_token;
  const auto more_than_loaded = [&](size_t tokens) {
    Session(engine).append(prompt(0, tokens));
    return *engine->memory_peak() - *loaded;
  };
  const uint64_t few = more_than_loaded(20), many = more_than_loaded(20 + 8 * 64);
  EXPECT_GE(many, few + token * 8 * 64);
  EXPECT_LT(few, token * static_cast<uint64_t>(engine->facts().context));
}

TEST_F(RunnerTest, RequestsOfABatchShareTheirBeginning) {
  const auto engine = load(4);
  std::vector<Request> requests;
  for (int i = 0; i < 6; ++i) {
    std::vector<int32_t> ids = prompt(1, 150);
    ids.push_back(i + 3);
    requests.emplace_back(*engine, ids, GenerateOptions{.max_tokens = 4, .sampler = {.temperature = 0}});
  }
  int64_t cached = 0;
  run_batch(engine, requests, {.on_finished = [&](size_t i) { cached += requests[i].take().cached_tokens; }});
  // Whole pages of those that run; the last two go on from sequences that ended, whose common beginning is longer.
  EXPECT_EQ(cached, 5 * 128 + 2 * 22);
}

}  // namespace
}  // namespace gabbro
