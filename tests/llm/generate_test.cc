// The generation loop: what ends it, what it reuses, and that equal seeds give equal texts.
#include "gabbro/engine/generate.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/error.h"
#include "src/text/tokenizer.h"
#include "tests/llm/tiny_model.h"

namespace gabbro {
namespace {

using test::TinyModel;

const std::vector<int32_t> kPrompt = {10, 200, 31, 7, 100};
constexpr int32_t kEnd = 2;

std::shared_ptr<Engine> engine(int64_t context = 0, TinyModel model = test::tiny_llama({.tied = false})) {
  return Engine::load(model.write("generate"), {.threads = 2, .context = context});
}

GenerateOptions greedy(int max_tokens) {
  GenerateOptions options{.max_tokens = max_tokens};
  options.sampler.temperature = 0;
  options.sampler.logit_bias = {{kEnd, -1000.0f}, {0, -1000.0f}, {1, -1000.0f}};
  return options;
}

TEST(Generate, TheMostLikelyTokensAreThoseOfTheLogits) {
  const auto shared = engine();
  Session session(shared);
  const GenerateResult result = generate(session, kPrompt, greedy(12));
  EXPECT_EQ(result.stop_reason, StopReason::kMaxTokens);
  EXPECT_STREQ(stop_reason_name(result.stop_reason), "length");
  EXPECT_EQ(result.prompt_tokens, std::ssize(kPrompt));
  EXPECT_EQ(result.cached_tokens, 0);
  ASSERT_EQ(result.token_ids.size(), 12U);
  Session again(shared);
  std::span<const float> logits = again.append(kPrompt);
  std::string text;
  for (const int32_t token : result.token_ids) {
    EXPECT_EQ(std::ranges::max_element(logits.begin() + 3, logits.end()) - logits.begin(), token);
    text += shared->tokenizer().piece(token);
    logits = again.append({&token, 1});
  }
  EXPECT_EQ(result.text, text);
}

TEST(Generate, KeepsWhatTheSessionAlreadyHolds) {
  const auto shared = engine();
  Session session(shared);
  const GenerateResult first = generate(session, kPrompt, greedy(6));
  std::vector<int32_t> longer = kPrompt;
  longer.insert(longer.end(), first.token_ids.begin(), first.token_ids.begin() + 3);
  longer.push_back(55);  // differs from here on
  longer.push_back(56);
  const GenerateResult second = generate(session, longer, greedy(6));
  EXPECT_EQ(second.cached_tokens, std::ssize(kPrompt) + 3);
  Session fresh(shared);
  EXPECT_EQ(generate(fresh, longer, greedy(6)).token_ids, second.token_ids);
  EXPECT_EQ(generate(session, longer, greedy(6)).cached_tokens, std::ssize(longer) - 1);  // the last one always runs
}

TEST(Generate, AStopTextMaySpanTokensAndIsNotPartOfTheResult) {
  const auto shared = engine();
  Session session(shared);
  const GenerateResult free = generate(session, kPrompt, greedy(8));
  const auto& tokenizer = shared->tokenizer();
  std::string before;
  for (int i = 0; i < 4; ++i) before += tokenizer.piece(free.token_ids[static_cast<size_t>(i)]);
  // The last character of the fourth token and the first of the fifth.
  const std::string stop{before.back(), tokenizer.piece(free.token_ids[4]).front()};
  ASSERT_EQ(free.text.find(stop), before.size() - 1) << free.text;
  GenerateOptions options = greedy(8);
  options.stop = {"never said", stop};
  std::string streamed;
  const GenerateResult result = generate(session, kPrompt, options, [&](std::string_view part) { streamed += part; });
  EXPECT_EQ(result.stop_reason, StopReason::kStopText);
  EXPECT_EQ(result.stop_text, stop);
  EXPECT_EQ(result.text, before.substr(0, before.size() - 1));
  EXPECT_EQ(streamed, result.text);
  EXPECT_EQ(result.token_ids.size(), 5U);
}

TEST(Generate, ControlTokensAreShownByName) {
  const auto shared = engine();
  Session session(shared);
  GenerateOptions options = greedy(3);
  options.sampler.logit_bias = {{1, 1000.0f}};
  ASSERT_TRUE(shared->tokenizer().is_control(1));
  EXPECT_EQ(generate(session, kPrompt, options).text, "");
  const std::string name(shared->tokenizer().piece(1));
  options.shown_controls = {"not in the vocabulary", name};
  EXPECT_EQ(generate(session, kPrompt, options).text, name + name + name);
  options.stop = {name};
  const GenerateResult result = generate(session, kPrompt, options);
  EXPECT_EQ(result.text, "");
  EXPECT_EQ(result.stop_text, name);
}

TEST(Generate, EndsWithTheTokenThatEndsTexts) {
  Session session(engine());
  GenerateOptions options = greedy(5);
  options.sampler.logit_bias = {{kEnd, 1000.0f}};
  const GenerateResult result = generate(session, kPrompt, options);
  EXPECT_EQ(result.stop_reason, StopReason::kEndOfGeneration);
  EXPECT_TRUE(result.token_ids.empty());
  EXPECT_EQ(result.text, "");
  options.ignore_end = true;
  const GenerateResult more = generate(session, kPrompt, options);
  EXPECT_EQ(more.token_ids, std::vector<int32_t>(5, kEnd));
  EXPECT_EQ(more.text, "");  // control tokens are not shown
}

TEST(Generate, EndsWhereTheContextIsFull) {
  Session session(engine(20));
  const GenerateResult result = generate(session, kPrompt, greedy(-1));
  EXPECT_EQ(result.stop_reason, StopReason::kContextFull);
  EXPECT_EQ(session.tokens().size(), 20U);
  EXPECT_EQ(result.token_ids.size(), 16U);  // the last one needs no place
}

TEST(Generate, NoTokensIsAnAnswerToo) {
  Session session(engine());
  const GenerateResult result = generate(session, kPrompt, greedy(0));
  EXPECT_EQ(result.stop_reason, StopReason::kMaxTokens);
  EXPECT_TRUE(result.token_ids.empty());
  EXPECT_TRUE(std::ranges::equal(session.tokens(), kPrompt));
}

TEST(Generate, EqualSeedsGiveEqualTexts) {
  const auto shared = engine();
  GenerateOptions options{.max_tokens = 30};
  options.sampler.temperature = 1.5f;
  options.sampler.top_k = 0;
  options.sampler.seed = 42;
  options.ignore_end = true;
  std::vector<std::vector<int32_t>> runs;
  for (const uint64_t seed : {42, 42, 43}) {
    Session session(shared);
    options.sampler.seed = seed;
    runs.push_back(generate(session, kPrompt, options).token_ids);
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_NE(runs[0], runs[2]);
}

TEST(Generate, StopsWhenItIsCanceled) {
  Session session(engine());
  std::atomic<bool> cancel = true;
  EXPECT_EQ(generate(session, kPrompt, greedy(5), {}, &cancel).stop_reason, StopReason::kCanceled);
  EXPECT_TRUE(session.tokens().empty());
  cancel = false;
  int parts = 0;
  const GenerateResult result = generate(
      session, kPrompt, greedy(100), [&](std::string_view) { cancel = ++parts == 3; }, &cancel);
  EXPECT_EQ(result.stop_reason, StopReason::kCanceled);
  EXPECT_EQ(result.token_ids.size(), 3U);
  EXPECT_FALSE(result.text.empty());
  cancel = false;
  EXPECT_EQ(generate(session, kPrompt, greedy(5), {}, &cancel).token_ids.size(), 5U);  // and goes on
}

TEST(Generate, RefusesPromptsThatCannotBe) {
  Session session(engine(20));
  const std::vector<int32_t> long_prompt(21, 5);
  EXPECT_THROW(generate(session, {}, greedy(5)), Error);
  EXPECT_THROW(generate(session, long_prompt, greedy(5)), Error);
  try {
    generate(session, long_prompt, greedy(5));
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the prompt has 21 tokens, more than the context of 20 holds");
    EXPECT_EQ(error.hint(), "shorten the prompt, or start with a larger --ctx; this model was trained for 256");
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
  }
  GenerateOptions options = greedy(5);
  options.sampler.temperature = -1;
  EXPECT_THROW(generate(session, kPrompt, options), Error);
}

TEST(Generate, RowsOfTheHeadBeyondTheVocabularyAreNoText) {
  TinyModel model = test::tiny_llama({.tied = false});
  model.tokens.resize(40);
  Session session(engine(0, model));
  GenerateOptions options = greedy(4);
  options.sampler.logit_bias = {{250, 1000.0f}};
  const GenerateResult result = generate(session, kPrompt, options);
  EXPECT_EQ(result.token_ids, std::vector<int32_t>(4, 250));
  EXPECT_EQ(result.text, "");
}

}  // namespace
}  // namespace gabbro
