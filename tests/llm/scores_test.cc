// Scores of tokens: log-softmax of a session's logits, for chosen tokens and for prompts, alone and in company.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "gabbro/engine/generate.h"
#include "src/base/error.h"
#include "src/engine/scheduler.h"
#include "src/text/tokenizer.h"
#include "tests/llm/recorded_answer.h"
#include "tests/llm/tiny_model.h"

namespace gabbro {
namespace {

using Answer = test::RecordedAnswer;

constexpr int32_t kEndToken = 2;
// Sums of a prompt and of single tokens in f32 come in another order.
constexpr float kScoreTolerance = 1e-4f;

std::vector<int32_t> scored_prompt(size_t length) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < length; ++i) tokens.push_back(static_cast<int32_t>((i * 37 + 11) % 250) + 3);
  return tokens;
}

GenerationRequest scored(size_t length, int tokens, int top) {
  GenerationRequest request{.prompt = scored_prompt(length)};
  request.options = {.max_tokens = tokens, .ignore_end = true};
  request.options.sampler.temperature = 0.7f;
  request.options.sampler.top_k = 5;
  request.options.sampler.seed = 9;
  request.options.sampler.top_logprobs = top;
  return request;
}

std::vector<double> expected_logprobs(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  std::vector<double> out;
  for (const float logit : logits) out.push_back(logit - largest - std::log(sum));
  return out;
}

void expect_score(const TokenScore& score, int32_t token, std::span<const float> logits, size_t top) {
  const std::vector<double> logprobs = expected_logprobs(logits);
  EXPECT_EQ(score.token, token);
  EXPECT_NEAR(score.logprob, logprobs[static_cast<size_t>(token)], kScoreTolerance);
  ASSERT_EQ(score.top.size(), top);
  std::vector<double> sorted = logprobs;
  std::ranges::sort(sorted, std::greater<>());
  for (size_t i = 0; i < top; ++i) {
    EXPECT_NEAR(score.top[i].second, sorted[i], kScoreTolerance) << i;
    EXPECT_NEAR(score.top[i].second, logprobs[static_cast<size_t>(score.top[i].first)], kScoreTolerance) << i;
  }
}

class Scores : public testing::Test {
 protected:
  std::shared_ptr<Answer> add(const GenerationRequest& request) {
    auto answer = std::make_shared<Answer>();
    loop_.add(request, answer);
    return answer;
  }
  void run() {
    while (loop_.step()) {
    }
  }

  std::shared_ptr<Engine> engine_ = Engine::load(test::tiny_llama({.tied = false}).write("scores"),
                                                 {.threads = 2, .sequences = 3, .kv_type = DType::f32});
  Scheduler loop_{engine_};
};

TEST_F(Scores, AreThoseOfTheModelsDistribution) {
  const auto answer = add(scored(7, 6, 4)), other = add(scored(90, 3, -1)), third = add(scored(20, 4, 0));
  run();
  ASSERT_TRUE(answer->result && other->result && third->result);
  const GenerateResult& result = *answer->result;
  ASSERT_EQ(result.scores.size(), 6U);
  EXPECT_TRUE(other->result->scores.empty());
  ASSERT_EQ(third->result->scores.size(), 4U);
  EXPECT_TRUE(third->result->scores[0].top.empty());
  Session session(engine_);
  std::span<const float> logits = session.append(scored_prompt(7));
  for (size_t i = 0; i < result.scores.size(); ++i) {
    expect_score(result.scores[i], result.token_ids[i], logits, 4);
    logits = session.append({&result.token_ids[i], 1});
  }
}

TEST_F(Scores, ComeBeforeTheTextOfTheirTokens) {
  const auto answer = add(scored(7, 30, 1));
  run();
  ASSERT_TRUE(answer->result);
  std::string text;
  for (const TokenScore& score : answer->result->scores) {
    if (!engine_->tokenizer().is_control(score.token)) text += engine_->tokenizer().piece(score.token);
  }
  EXPECT_EQ(text, answer->result->text);
  ASSERT_EQ(answer->scored_tokens.size(), answer->result->scores.size());
  for (size_t i = 0; i < answer->scored_tokens.size(); ++i)
    EXPECT_EQ(answer->scored_tokens[i], answer->result->token_ids[i]);
}

TEST_F(Scores, OfAStopTextAreLeftOut) {
  GenerationRequest request = scored(7, 12, 0);
  const auto whole = add(request);
  run();
  ASSERT_TRUE(whole->result);
  const std::vector<int32_t>& tokens = whole->result->token_ids;
  request.options.stop = {std::string(engine_->tokenizer().piece(tokens[6])) +
                          std::string(engine_->tokenizer().piece(tokens[7]))};
  const auto cut = add(request);
  run();
  ASSERT_TRUE(cut->result);
  ASSERT_EQ(cut->result->stop_reason, StopReason::kStopText);
  std::string text;
  for (const TokenScore& score : cut->result->scores) text += engine_->tokenizer().piece(score.token);
  EXPECT_EQ(text, cut->result->text);
  EXPECT_LT(cut->result->scores.size(), cut->result->token_ids.size());
}

TEST_F(Scores, OfAPromptAreThoseOfItsTokens) {
  constexpr size_t kLength = 150;  // more than a step scores
  const auto first = add(scored(kLength, 2, -1));
  run();
  GenerationRequest request = scored(kLength, 2, 3);
  request.options.scores_prompt = true;
  const auto answer = add(request), other = add(scored(33, 5, -1));
  run();
  ASSERT_TRUE(answer->result && other->result);
  EXPECT_EQ(answer->result->cached_tokens, 0);
  EXPECT_EQ(answer->result->token_ids, first->result->token_ids);
  ASSERT_EQ(answer->result->prompt_scores.size(), kLength - 1);
  Session session(engine_);
  const std::vector<int32_t> tokens = scored_prompt(kLength);
  for (size_t i = 0; i + 1 < kLength; ++i)
    expect_score(answer->result->prompt_scores[i], tokens[i + 1], session.append({&tokens[i], 1}), 3);
}

TEST_F(Scores, OfAPromptNeedNoGeneratedToken) {
  GenerationRequest request = scored(5, 0, 0);
  request.options.scores_prompt = true;
  const auto answer = add(request);
  run();
  ASSERT_TRUE(answer->result);
  EXPECT_EQ(answer->result->prompt_scores.size(), 4U);
  EXPECT_TRUE(answer->result->scores.empty());
}

TEST_F(Scores, AreTheSameInADeterministicLoop) {
  Scheduler alone(engine_, {.deterministic = true}), together(engine_, {.deterministic = true});
  GenerationRequest request = scored(70, 8, 2);
  request.options.scores_prompt = true;
  const GenerateResult expected = generate(alone, request, {}, nullptr);
  const auto answer = std::make_shared<Answer>(), other = std::make_shared<Answer>();
  together.add(scored(40, 20, -1), other);
  together.add(request, answer);
  while (together.step()) {
  }
  ASSERT_TRUE(answer->result);
  ASSERT_EQ(answer->result->scores.size(), expected.scores.size());
  for (size_t i = 0; i < expected.scores.size(); ++i) {
    EXPECT_EQ(answer->result->scores[i].logprob, expected.scores[i].logprob);
    EXPECT_EQ(answer->result->scores[i].top, expected.scores[i].top);
  }
  ASSERT_EQ(answer->result->prompt_scores.size(), expected.prompt_scores.size());
  for (size_t i = 0; i < expected.prompt_scores.size(); ++i)
    EXPECT_EQ(answer->result->prompt_scores[i].logprob, expected.prompt_scores[i].logprob);
}

TEST_F(Scores, LeastTokensComeBeforeAnEnd) {
  for (const int least : {0, 1, 5}) {
    GenerationRequest request = scored(7, 9, -1);
    request.options.ignore_end = false;
    request.options.min_tokens = least;
    request.options.sampler.temperature = 0;
    request.options.sampler.logit_bias = {{kEndToken, 1000.0f}};
    const auto answer = add(request);
    run();
    ASSERT_TRUE(answer->result);
    EXPECT_EQ(answer->result->token_ids.size(), static_cast<size_t>(least));
    EXPECT_EQ(answer->result->stop_reason, StopReason::kEndOfGeneration);
    EXPECT_EQ(std::ranges::count(answer->result->token_ids, kEndToken), 0);
  }
}

TEST_F(Scores, LeastTokensComeBeforeAStopText) {
  GenerationRequest request = scored(7, 9, -1);
  const auto whole = add(request);
  run();
  request.options.stop = {std::string(engine_->tokenizer().piece(whole->result->token_ids[1]))};
  request.options.min_tokens = 4;
  const auto answer = add(request);
  run();
  ASSERT_TRUE(answer->result);
  EXPECT_GE(answer->result->token_ids.size(), 4U);
  EXPECT_NE(answer->result->text.find(request.options.stop[0]), std::string::npos);
}

}  // namespace
}  // namespace gabbro
