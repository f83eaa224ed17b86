// Sequences of models with recurrent states or latents (tests/data/families): alone, among others, cut, copied and
// stopped, against sequences that were never disturbed.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>

#include "gabbro/engine/session.h"
#include "src/base/error.h"
#include "src/engine/model_needs.h"
#include "src/engine/tree_runner.h"

namespace gabbro {
namespace {

constexpr int32_t kStateWords = 96;

class States : public testing::TestWithParam<const char*> {
 protected:
  static std::string folder() { return std::string(GABBRO_SOURCE_DIR "/tests/data/families/") + GetParam(); }
  static std::shared_ptr<Engine> load(int64_t sequences) {
    return Engine::load(folder(), {.threads = 2, .context = 200, .sequences = sequences});
  }
};

INSTANTIATE_TEST_SUITE_P(Families, States, testing::Values("deepseek_v3", "gpt_oss", "lfm2", "mamba", "mamba2"),
                         [](const auto& tested) { return std::string(tested.param); });

std::vector<int32_t> prompt_of(size_t number, size_t length) {
  std::vector<int32_t> ids(length);
  for (size_t i = 0; i < length; ++i) ids[i] = static_cast<int32_t>((i * 7 + number * 31 + 3) % kStateWords);
  return ids;
}

int32_t best(std::span<const float> row) { return static_cast<int32_t>(std::ranges::max_element(row) - row.begin()); }

// Appends the tokens, then the best one `count` times.
std::vector<int32_t> greedy(Session& session, std::span<const int32_t> more, int count) {
  std::vector<int32_t> tokens;
  std::span<const float> logits = session.append(more);
  for (int i = 0; i < count; ++i) {
    tokens.push_back(best(logits));
    logits = session.append({&tokens.back(), 1});
  }
  return tokens;
}

std::vector<int32_t> greedy(const std::shared_ptr<Engine>& engine, std::span<const int32_t> prompt, int count) {
  Session session(engine);
  return greedy(session, prompt, count);
}

TEST_P(States, GreedyTokensAreThoseOfEachSequenceAlone) {
  constexpr size_t kSequences = 5;
  constexpr int kTokens = 8;
  const auto engine = load(kSequences);
  Runner runner(engine);
  std::deque<Sequence> sequences;
  std::vector<std::vector<int32_t>> prompts, tokens(kSequences);
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < kSequences; ++i) {
    prompts.push_back(prompt_of(i, 3 + 17 * i));
    sequences.emplace_back(engine);
  }
  for (size_t i = 0; i < kSequences; ++i) chunks.push_back({&sequences[i], prompts[i]});
  std::span<const float> logits = runner.step(chunks);
  for (int t = 0; t < kTokens; ++t) {
    for (size_t i = 0; i < kSequences; ++i) {
      tokens[i].push_back(best(logits.subspan(i * kStateWords, kStateWords)));
      chunks[i].tokens = std::span(&tokens[i].back(), 1);
    }
    logits = runner.step(chunks);
  }
  const auto alone = load(1);
  for (size_t i = 0; i < kSequences; ++i) EXPECT_EQ(tokens[i], greedy(alone, prompts[i], kTokens)) << i;
}

TEST_P(States, ACutSessionGoesOnAsIfItHadNeverHeldMore) {
  const auto engine = load(1);
  const std::vector<int32_t> prompt = prompt_of(1, 75), more = prompt_of(2, 6);
  std::vector<int32_t> whole(prompt.begin(), prompt.begin() + 70);
  whole.insert(whole.end(), more.begin(), more.end());
  const std::vector<int32_t> expected = greedy(engine, whole, 5);
  Session session(engine);
  greedy(session, prompt, 4);
  session.truncate(70);
  EXPECT_EQ(greedy(session, more, 5), expected);
}

// Three sessions on an engine with room for the states of one.
TEST_P(States, SessionsTakeTurnsWithOneSlot) {
  const auto engine = load(1);
  std::deque<Session> sessions;
  std::vector<std::vector<int32_t>> tokens(2), expected;
  for (size_t i = 0; i < 2; ++i) {
    sessions.emplace_back(engine);
    expected.push_back(greedy(engine, prompt_of(i, 9 + i), 4));
  }
  std::vector<std::vector<int32_t>> next = {prompt_of(0, 9), prompt_of(1, 10)};
  for (int t = 0; t < 4; ++t) {
    for (size_t i = 0; i < 2; ++i) {
      tokens[i].push_back(best(sessions[i].append(next[i])));
      next[i] = {tokens[i].back()};
    }
  }
  EXPECT_EQ(tokens, expected);
}

// Another text goes on from all of a sequence, or from nothing of it; and nothing is drafted that would be cut.
TEST_P(States, AreNotCutForAnotherText) {
  const auto engine = load(1);
  if (engine->facts().state_bytes == 0) GTEST_SKIP() << "the model has no states";
  const std::vector<int32_t> prompt = prompt_of(1, 75);
  Runner runner(engine);
  Sequence sequence(engine);
  const Chunk chunk{&sequence, prompt};
  runner.step(std::span(&chunk, 1));
  std::vector<int32_t> longer = prompt;
  longer.push_back(5);
  EXPECT_EQ(sequence.beginning_of(longer), 75);
  EXPECT_EQ(sequence.beginning_of(std::span(prompt).first(74)), 0);
  EXPECT_EQ(runner.draft_room(sequence), 0);
  EXPECT_EQ(TreeRunner(runner).branch_room(), 0);
}

TEST_P(States, ACopyGoesOnByItself) {
  const auto engine = load(2);
  Runner runner(engine);
  Sequence first(engine);
  const std::vector<int32_t> prompt = prompt_of(3, 40), a = prompt_of(4, 5), b = prompt_of(5, 7);
  const auto last = [&](Sequence& sequence, std::span<const int32_t> tokens) {
    const Chunk chunk{&sequence, tokens};
    const std::span<const float> logits = runner.step(std::span(&chunk, 1));
    return std::vector<float>(logits.begin(), logits.end());
  };
  last(first, prompt);
  Sequence second(first);
  const std::vector<float> of_a = last(first, a), of_b = last(second, b);
  Sequence other_a(engine), other_b(engine);
  last(other_a, prompt);
  last(other_b, prompt);
  EXPECT_EQ(last(other_a, a), of_a);
  EXPECT_EQ(last(other_b, b), of_b);
}

TEST_P(States, ACanceledStepLeavesTheSequenceAsBefore) {
  const auto engine = load(1);
  const std::vector<int32_t> prompt = prompt_of(1, 30), more = prompt_of(2, 4);
  Session reference(engine), session(engine);
  std::vector<int32_t> whole = prompt;
  whole.insert(whole.end(), more.begin(), more.end());
  const std::vector<int32_t> expected = greedy(reference, whole, 3);
  session.append(prompt);
  const std::atomic<bool> cancel = true;
  try {
    session.append(prompt_of(7, 20), &cancel);
    session.truncate(30);  // the step ended before it checked the flag
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInterrupted);
  }
  EXPECT_EQ(session.tokens().size(), prompt.size());
  EXPECT_EQ(greedy(session, more, 3), expected);
}

// The sizes that `fit` counts: keys and values by token, latents once, states by sequence.
TEST(CacheOfFamilies, IsCountedByItsKind) {
  const auto needs = [](const char* name) {
    return needs_of(Checkpoint::open(std::string(GABBRO_SOURCE_DIR "/tests/data/families/") + name));
  };
  EXPECT_EQ(kv_bytes_per_token(needs("deepseek_v3"), DType::f16), 3u * (32 + 8) * 2);
  EXPECT_EQ(state_bytes(needs("deepseek_v3")), 0u);
  EXPECT_EQ(kv_bytes_per_token(needs("mamba"), DType::f16), 0u);
  EXPECT_EQ(state_bytes(needs("mamba")), 3u * 64 * (3 + 16) * 4);
  EXPECT_EQ(state_bytes(needs("mamba2")), 3u * ((64 + 2 * 2 * 24) * 3 + 8 * 8 * 24) * 4);
  EXPECT_EQ(kv_bytes_per_token(needs("lfm2"), DType::f16), 2u * 2 * 8 * 2);
  EXPECT_EQ(state_bytes(needs("lfm2")), 2u * 32 * 2 * 4);
}

}  // namespace
}  // namespace gabbro
