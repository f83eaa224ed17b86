// Texts that obey a grammar: whatever the seed, the batch and the drafts, and with the same tokens in each of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "gabbro/engine/generate.h"
#include "src/base/error.h"
#include "src/engine/runner.h"
#include "src/engine/scheduler.h"
#include "src/engine/speculation.h"
#include "src/text/grammar/test_grammar.h"
#include "src/text/tokenizer.h"
#include "tests/llm/recorded_answer.h"
#include "tests/llm/tiny_model.h"

namespace gabbro::constrained_test {
namespace {

const std::vector<int32_t> kPrompt = {10, 200, 31, 7, 100};

constexpr const char* kPerson = R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 12},
  "age": {"type": "integer", "minimum": 0, "maximum": 120}, "tags": {"type": "array", "items": {"enum": ["a", "b"]},
  "maxItems": 3}}, "required": ["name", "age", "tags"], "additionalProperties": false})";

// The characters of JSON, and pieces of several.
std::shared_ptr<Engine> load(const char* name) {
  test::TinyModel model = test::tiny_llama({.tied = false});
  size_t next = 3;
  for (char c = '!'; c <= '~'; ++c) model.tokens[next++] = std::string(1, c);
  for (const char* const piece :
       {"\xE2\x96\x81", "{\"", "\":", "\",\"", "\"}", "name", "age", "tags", "[\"", "]}", "\xE2\x96\x81\""})
    model.tokens[next++] = piece;
  return Engine::load(model.write(name), {.threads = 1, .sequences = 8});
}

GenerateOptions schema_options(uint64_t seed, float temperature = 1) {
  GenerateOptions options{.max_tokens = 240, .format = {OutputFormat::Kind::kJsonSchema, kPerson}};
  options.sampler.temperature = temperature;
  options.sampler.top_k = 0;
  options.sampler.top_p = 1;
  options.sampler.min_p = 0;
  options.sampler.seed = seed;
  return options;
}

TEST(Constrained, TextsObeyTheSchema) {
  const auto engine = load("constrained");
  text::grammar::TestGrammar grammar(OutputFormat::Kind::kJsonSchema, kPerson);
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Session session(engine);
    const GenerateResult result = generate(session, kPrompt, schema_options(seed, seed % 4 == 0 ? 0 : 1));
    if (result.stop_reason == StopReason::kEndOfGeneration) {
      EXPECT_TRUE(grammar.accepts(result.text)) << result.text;
    } else {
      EXPECT_TRUE(grammar.begins(result.text)) << result.text;
    }
    EXPECT_TRUE(result.text.starts_with("{")) << result.text;
  }
}

TEST(Constrained, EndsWhereNothingMayFollow) {
  const auto engine = load("constrained_end");
  GenerateOptions options = schema_options(1);
  options.format = {OutputFormat::Kind::kChoice, R"(["ab"])"};
  options.ignore_end = true;
  options.min_tokens = 50;
  Session session(engine);
  const GenerateResult result = generate(session, kPrompt, options);
  EXPECT_EQ(result.text, "ab");
  EXPECT_EQ(result.stop_reason, StopReason::kEndOfGeneration);
}

// Forced text is drafted for a single text: the tokens stay the same as with one token a pass.
TEST(Constrained, BatchesGiveTheTokensOfSingleTexts) {
  const auto engine = load("constrained_batch");
  std::vector<std::vector<int32_t>> expected;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Session session(engine);
    GenerateOptions options = schema_options(seed, seed % 2 == 0 ? 0 : 1);
    if (seed > 4) options.format = {};
    expected.push_back(generate(session, kPrompt, options).token_ids);
  }
  Scheduler scheduler(engine);
  std::vector<std::shared_ptr<test::RecordedAnswer>> answers;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    GenerationRequest request{.prompt = kPrompt, .options = schema_options(seed, seed % 2 == 0 ? 0 : 1)};
    if (seed > 4) request.options.format = {};
    answers.push_back(std::make_shared<test::RecordedAnswer>());
    scheduler.add(std::move(request), answers.back());
  }
  while (scheduler.step()) {
  }
  for (size_t i = 0; i < answers.size(); ++i) {
    ASSERT_TRUE(answers[i]->result);
    EXPECT_EQ(answers[i]->result->token_ids, expected[i]) << i;
  }
}

// Proposes random tokens, and sometimes the forced ones.
class RandomDrafter : public Drafter {
 public:
  std::vector<int32_t> propose(std::span<const int32_t>, int count, const std::atomic<bool>*) override {
    std::vector<int32_t> drafted;
    for (int i = 0; i < count; ++i) drafted.push_back(static_cast<int32_t>(random_() % test::TinyModel::kV));
    return drafted;
  }
  int most() const override { return 8; }

 private:
  std::mt19937 random_{11};
};

TEST(Constrained, SpeculationGivesTheSameTokens) {
  const auto engine = load("constrained_drafts");
  for (const bool model_drafts : {false, true}) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      GenerateOptions options = schema_options(seed, seed % 2 == 0 ? 0 : 1);
      Session plain(engine), speculating(engine);
      const GenerateResult expected = generate(plain, kPrompt, options);
      if (model_drafts) {
        options.drafter = std::make_shared<DraftModel>(load("constrained_draft_model"), *engine, 6);
      } else {
        options.drafter = std::make_shared<RandomDrafter>();
      }
      EXPECT_EQ(generate(speculating, kPrompt, options).token_ids, expected.token_ids) << seed;
    }
  }
}

TEST(Constrained, RefusesGrammarsBeforeTheyRun) {
  const auto engine = load("constrained_refused");
  Scheduler scheduler(engine);
  GenerationRequest request{.prompt = kPrompt, .options = schema_options(1)};
  request.options.format.source = R"({"not": {}})";
  const auto answer = std::make_shared<test::RecordedAnswer>();
  EXPECT_THROW(scheduler.add(request, answer), Error);
  // The engine goes on.
  request.options.format.source = "{}";
  request.options.max_tokens = 2;
  scheduler.add(request, answer);
  while (scheduler.step()) {
  }
  EXPECT_TRUE(answer->result);
}

TEST(Sampler, ChoosesOnlyAllowedTokens) {
  std::vector<float> logits(130);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i);
  for (const float temperature : {0.0f, 1.0f}) {
    Sampler sampler({.temperature = temperature, .seed = 1}, std::ssize(logits));
    sampler.allow({uint64_t{1} << 5, uint64_t{1} << 63});  // tokens 5 and 127; without a word for 128 and 129
    EXPECT_FALSE(sampler.is_greedy());
    EXPECT_FALSE(sampler.row(0, false).on_device);
    EXPECT_TRUE(sampler.row(0, true).on_device);
    EXPECT_FALSE(sampler.row(1, true).on_device);  // it depends on the token before
    EXPECT_EQ(sampler.sample(logits), 127);
    sampler.allow({uint64_t{1} << 5});
    EXPECT_EQ(sampler.sample(logits), 5);
    sampler.allow({});
    EXPECT_GE(sampler.sample(logits), 100);
  }
}

}  // namespace
}  // namespace gabbro::constrained_test
