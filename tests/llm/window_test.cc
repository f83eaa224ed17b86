// Layers with a window of attention, whose cache has pages of the window alone: against the same model with a context
// that is so short that all pages stay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "gabbro/engine/generate.h"
#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/engine/batch.h"
#include "src/engine/model_needs.h"
#include "src/engine/speculation.h"
#include "tests/llm/expected_logits.h"
#include "tests/llm/family_folder.h"
#include "tests/llm/tiny_model.h"

namespace gabbro {
namespace {

using test::TinyModel;

constexpr int64_t kV = TinyModel::kV;
constexpr int64_t kWindow = 20, kShort = 768, kLong = 1536;  // windows need pages for 768 tokens
constexpr int64_t kStep = 512;

// How much longer the steps of the device are: windows have pages for one of them.
int64_t longer_steps() {
  static const int64_t more = prefill_chunk(open_device("auto", {.threads = 2})->facts()) - kStep;
  return more;
}
int64_t long_context() { return kLong + longer_steps(); }

// A model of two layers: the second has no window, or both have it.
TinyModel windowed(bool hybrid) {
  TinyModel model = test::tiny_llama({.tied = false});
  model.fields["attention.sliding_window"] = kWindow;
  if (hybrid) model.fields["attention.sliding_window_pattern"] = std::vector<int32_t>{1, 0};
  return model;
}

std::vector<int32_t> text(int64_t number, size_t length) {
  std::vector<int32_t> ids(length);
  for (size_t i = 0; i < length; ++i)
    ids[i] = static_cast<int32_t>((i * i * 3 + i * 7 + static_cast<size_t>(number) * 31 + 3) % kV);
  return ids;
}

// Other chunks of a prompt have other kernels, which round queries to f16.
void expect_close(std::span<const float> actual, std::span<const float> expected, const std::string& what) {
  expect_near(actual, expected, std::ssize(expected), kToleranceOfCards, what);
}

class Windows : public testing::TestWithParam<bool> {
 protected:
  std::shared_ptr<Engine> load(int64_t context, int64_t sequences = 1) const {
    return Engine::load(windowed(GetParam()).write("window"),
                        {.threads = 2, .context = context, .sequences = sequences});
  }
  // Computed with a cache with all pages, for texts of at most kShort tokens.
  std::vector<float> expected(std::span<const int32_t> tokens) {
    if (!reference_) reference_ = load(kShort);
    Session session(reference_);
    const auto logits = session.append(tokens);
    return {logits.begin(), logits.end()};
  }
  std::vector<int32_t> expected_tokens(std::span<const int32_t> prompt, int count) {
    if (!reference_) reference_ = load(kShort);
    Session session(reference_);
    return generate(session, prompt, greedy(count)).token_ids;
  }
  static GenerateOptions greedy(int count) {
    return {.max_tokens = count, .sampler = {.temperature = 0}, .ignore_end = true};
  }

  std::shared_ptr<Engine> reference_;
};

// Keys and values of a layer and a token: one head of 32 in f16. A window of 20 and 64 tokens that may be cut are two
// pages, with two more for where they begin, and a step's.
TEST_P(Windows, TakeTheMemoryOfTheWindow) {
  constexpr uint64_t kPage = 64 * 2 * TinyModel::kD * 2;
  const uint64_t window = 4 + kStep / 64, all = kLong / 64;
  const auto engine = load(long_context());
  EXPECT_EQ(engine->kv_bytes_read(10), kPage / 64 * 2 * 10);
  EXPECT_EQ(engine->kv_bytes_read(1000), kPage / 64 * (kWindow + (GetParam() ? 1000 : kWindow)));
  if (engine->facts().device_id != "cpu") GTEST_SKIP() << "steps may be larger";
  EXPECT_EQ(engine->facts().cache_bytes, kPage * (window + (GetParam() ? all : window)));
  EXPECT_EQ(load(kShort)->facts().cache_bytes, kPage * 2 * kShort / 64);
}

// Files of Gemma 3 by some converters: one layer in each group of that many has no window.
TEST(WindowPattern, MayBeANumber) {
  TinyModel by_number = windowed(false);
  by_number.fields["attention.sliding_window_pattern"] = int64_t{2};
  Session of_number(Engine::load(by_number.write("window_number"), {.threads = 2, .context = long_context()}));
  Session of_list(Engine::load(windowed(true).write("window_list"), {.threads = 2, .context = long_context()}));
  const std::vector<int32_t> tokens = text(1, 60);
  const auto a = of_number.append(tokens), b = of_list.append(tokens);
  EXPECT_TRUE(std::ranges::equal(a, b));
  EXPECT_EQ(of_number.engine().facts().cache_bytes, of_list.engine().facts().cache_bytes);
}

// In one step and in many, up to the end of the context, several times: pages come back.
TEST_P(Windows, GiveTheLogitsOfACacheWithAllPages) {
  const auto engine = load(long_context());
  const std::vector<int32_t> whole = text(1, long_context());
  for (int round = 0; round < 3; ++round) {
    Session session(engine);
    const auto tokens = std::span(whole).first(700 + static_cast<size_t>(round));
    const auto logits = session.append(tokens);
    expect_close(logits, expected(tokens), "prompt");
    for (size_t at = tokens.size(); at < tokens.size() + 40; ++at) {
      const auto next = session.append(std::span(whole).subspan(at, 1));
      if (at % 13 == 0) expect_close(next, expected(std::span(whole).first(at + 1)), "token");
    }
    session.append(std::span(whole).subspan(session.tokens().size()));
    EXPECT_EQ(std::ssize(session.tokens()), long_context());
  }
}

// The pages before the cut may be held, found by their names, or lost and computed again.
TEST_P(Windows, MayBeTruncatedAnywhere) {
  const auto engine = load(long_context()), other = load(long_context());
  const std::vector<int32_t> whole = text(2, 1300), more = text(3, 9);
  for (const int64_t length : {1299, 1236, 1200, 900, 640, 601, 128, 127, 64, 20, 1, 0}) {
    Session session(engine);
    session.append(whole);
    session.truncate(length);
    session.truncate(length / 2 + length / 3);
    std::vector<int32_t> now(session.tokens().begin(), session.tokens().end());
    now.insert(now.end(), more.begin(), more.end());
    const auto logits = session.append(more);
    if (std::ssize(now) <= kShort) {
      expect_close(logits, expected(now), "cut to " + std::to_string(length));
    } else {
      Session fresh(other);
      expect_close(logits, fresh.append(now), "cut to " + std::to_string(length));
    }
  }
}

TEST_P(Windows, ACanceledPromptLeavesTheSessionAsBefore) {
  const auto engine = load(long_context());
  Session session(engine);
  const std::vector<int32_t> begin = text(4, 100), more = text(5, 1200), last = text(6, 3);
  session.append(begin);
  std::vector<int32_t> outside = more;
  outside.push_back(static_cast<int32_t>(kV));
  EXPECT_THROW(session.append(outside), Error);
  const std::atomic<bool> cancel = true;
  EXPECT_THROW(session.append(more, &cancel), Error);
  EXPECT_EQ(session.tokens().size(), begin.size());
  std::vector<int32_t> now = begin;
  now.insert(now.end(), last.begin(), last.end());
  expect_close(session.append(last), expected(now), "after it");
}

// Layers with a window need the last pages of a beginning that others computed; where these are gone, an earlier
// beginning is found, or none.
TEST_P(Windows, BeginningsAreShared) {
  const auto engine = load(long_context(), 2);
  Runner runner(engine);
  const auto logits_after = [&](Sequence& sequence, std::span<const int32_t> tokens) {
    std::vector<float> last;
    runner.append(sequence, tokens, kStep, Chunk::Rows::kLast, nullptr,
                  [&](std::span<const float> logits) { last.assign(logits.begin(), logits.end()); });
    return last;
  };
  const std::vector<int32_t> whole = text(7, 700);
  {
    Sequence first(engine);
    EXPECT_EQ(first.reuse(whole), 0);
    expect_close(logits_after(first, whole), expected(whole), "first");
    Sequence second(engine);
    EXPECT_EQ(second.reuse(whole), 640);
    expect_close(logits_after(second, std::span(whole).subspan(640)), expected(whole), "second");
    // Both go on for themselves.
    std::vector<int32_t> longer = whole;
    longer.push_back(5);
    expect_close(logits_after(first, std::span(longer).last(1)), expected(longer), "first, longer");
    longer.back() = 6;
    expect_close(logits_after(second, std::span(longer).last(1)), expected(longer), "second, longer");
    // In the middle: pages that were passed, but not yet written again.
    std::vector<int32_t> other = whole;
    other[600] ^= 1;
    Sequence third(engine);
    const int64_t held = third.reuse(other);
    EXPECT_EQ(held, 576);
    expect_close(logits_after(third, std::span(other).subspan(static_cast<size_t>(held))), expected(other), "third");
  }
  // Other texts take the pages. The layer without a window still has the beginning of `whole`, those with one do not.
  for (int64_t i = 0; i < 3 + longer_steps() / 256; ++i) {
    Sequence other(engine);
    logits_after(other, text(20 + i, 500));
  }
  Sequence last(engine);
  const int64_t held = last.reuse(whole);
  EXPECT_LT(held, 576);
  expect_close(logits_after(last, std::span(whole).subspan(static_cast<size_t>(held))), expected(whole), "last");
}

// A sequence that found a beginning may be cut to less than that, where its own pages do not begin.
TEST_P(Windows, ABeginningThatWasFoundMayBeTruncated) {
  const auto engine = load(long_context(), 2);
  Runner runner(engine);
  const std::vector<int32_t> whole = text(8, 700);
  const auto append = [&](Sequence& sequence, std::span<const int32_t> tokens) {
    std::vector<float> last;
    runner.append(sequence, tokens, kStep, Chunk::Rows::kLast, nullptr,
                  [&](std::span<const float> logits) { last.assign(logits.begin(), logits.end()); });
    return last;
  };
  Sequence first(engine);
  append(first, whole);
  for (const int64_t length : {639, 600, 300, 70, 3}) {
    Sequence second(engine);
    ASSERT_GE(second.reuse(whole), 64);
    second.truncate(std::min(length, std::ssize(second.tokens())));
    Sequence copy = second;
    std::vector<int32_t> now(second.tokens().begin(), second.tokens().end());
    now.push_back(9);
    expect_close(append(second, std::span(now).last(1)), expected(now), "cut");
    expect_close(append(copy, std::span(now).last(1)), expected(now), "a copy of it");
  }
  std::vector<int32_t> longer = whole;
  longer.push_back(9);
  expect_close(append(first, std::span(longer).last(1)), expected(longer), "first");
}

TEST_P(Windows, ABatchGivesTheTokensOfEachRequestAlone) {
  const auto engine = load(long_context(), 3);
  std::vector<std::vector<int32_t>> prompts;
  for (const size_t length : {650, 30, 300, 700, 90, 641, 513}) {
    prompts.push_back(text(9, length));                    // they begin likewise,
    if (length % 2 == 0) prompts.back()[length / 2] ^= 1;  // but half of them differ in the middle
  }
  std::vector<Request> requests;
  for (const auto& prompt : prompts) requests.emplace_back(*engine, prompt, greedy(40));
  int64_t cached = 0;
  std::vector<std::vector<int32_t>> got(prompts.size());
  run_batch(engine, requests, {.on_finished = [&](size_t i) {
              GenerateResult result = requests[i].take();
              cached += result.cached_tokens;
              got[i] = std::move(result.token_ids);
            }});
  for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(got[i], expected_tokens(prompts[i], 40)) << "request " << i;
  EXPECT_GT(cached, 0);
}

// Chains and trees of the longest depth; half of their tokens are wrong.
class WrongDrafter : public Drafter {
 public:
  WrongDrafter(std::vector<int32_t> right, bool tree) : right_(std::move(right)), tree_(tree) {}
  std::vector<int32_t> propose(std::span<const int32_t> tokens, int count, const std::atomic<bool>*) override {
    std::vector<int32_t> drafted;
    for (size_t at = tokens.size(); std::ssize(drafted) < count; ++at) {
      const bool is_right = at < right_.size() && random_() % 16 != 0;
      drafted.push_back(is_right ? right_[at] : static_cast<int32_t>(random_() % kV));
    }
    return drafted;
  }
  TokenTree propose_tree(std::span<const int32_t> tokens, DraftBudget& budget, const std::atomic<bool>* c) override {
    TokenTree tree;
    for (int branch = 0; branch < (tree_ ? 3 : 1); ++branch) {
      if (branch > 0 && !budget.take_branch()) break;
      int32_t last = -1;
      for (const int32_t token : propose(tokens, budget.depth(), c)) {
        const int32_t child = tree.child(last, token);
        last = child >= 0 ? child : tree.add(last, token);
      }
    }
    return tree;
  }
  int most() const override { return 64; }

 private:
  std::vector<int32_t> right_;
  bool tree_;
  std::mt19937 random_{5};
};

TEST_P(Windows, DraftsThatAreRejectedChangeNothing) {
  const auto engine = load(long_context());
  const std::vector<int32_t> prompt = text(10, 500);
  constexpr int kTokens = 200;
  std::vector<int32_t> right = prompt;
  const std::vector<int32_t> expected = expected_tokens(prompt, kTokens);
  right.insert(right.end(), expected.begin(), expected.end());
  for (const bool tree : {false, true}) {
    GenerateOptions options = greedy(kTokens);
    options.drafter = std::make_shared<WrongDrafter>(right, tree);
    Session session(engine);
    const GenerateResult got = generate(session, prompt, options);
    EXPECT_EQ(got.token_ids, expected) << (tree ? "trees" : "chains");
    EXPECT_GT(got.accepted_tokens, 50);
    EXPECT_GT(got.drafted_tokens, got.accepted_tokens + 100);
    // And the session goes on from there.
    const auto held = session.tokens();
    std::vector<int32_t> now(held.begin(), held.end());
    now.push_back(7);
    if (std::ssize(now) <= kShort) expect_close(session.append(std::span(now).last(1)), this->expected(now), "then");
  }
}

// The draft model's own session is cut and goes on, too.
TEST_P(Windows, ADraftModelMayHaveThem) {
  const auto engine = load(long_context());
  const std::vector<int32_t> prompt = text(11, 600);
  GenerateOptions options = greedy(60);
  options.drafter = std::make_shared<DraftModel>(load(long_context()), *engine, 8);
  Session session(engine);
  const GenerateResult got = generate(session, prompt, options);
  EXPECT_EQ(got.token_ids, expected_tokens(prompt, 60));
  EXPECT_GT(got.accepted_tokens, 30);
}

// A turn of a conversation: the prompt goes on from an earlier place of the text.
TEST_P(Windows, AConversationGoesOnFromAnEarlierPlace) {
  const auto engine = load(long_context());
  Session session(engine);
  std::vector<int32_t> prompt = text(12, 400);
  for (const size_t back : {0, 30, 100, 390}) {
    const GenerateResult got = generate(session, prompt, greedy(50));
    ASSERT_EQ(got.token_ids, expected_tokens(prompt, 50)) << prompt.size();
    prompt.insert(prompt.end(), got.token_ids.begin(), got.token_ids.end());
    prompt.resize(prompt.size() - back);
    const std::vector<int32_t> question = text(static_cast<int64_t>(13 + back), 20);
    prompt.insert(prompt.end(), question.begin(), question.end());
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Windows, testing::Bool(),
                         [](const auto& tested) { return tested.param ? "SomeLayers" : "AllLayers"; });

// Each family with windows or chunks of attention in its layers, whose cache_spec has to be as its attention is.
class WindowFamilies : public testing::TestWithParam<const char*> {};

TEST_P(WindowFamilies, GiveTheLogitsOfACacheWithAllPages) {
  const std::string folder = in_f32(family_folder(GetParam()));
  const auto all = Engine::load(folder, {.threads = 2, .context = kShort});
  const auto windows = Engine::load(folder, {.threads = 2, .context = long_context()});
  const auto times = static_cast<uint64_t>(long_context() / kShort);
  EXPECT_LT(windows->facts().cache_bytes, times * all->facts().cache_bytes);  // there are some
  const int64_t vocabulary = all->facts().vocabulary;
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 700; ++i) ids.push_back(static_cast<int32_t>((i * i * 5 + i * 11 + 1) % vocabulary));
  Session one(all), two(windows);
  const auto chunk = std::span(ids).first(640);
  one.append(chunk);
  two.append(chunk);
  for (size_t at = chunk.size(); at < ids.size(); ++at) {
    const auto expected = one.append(std::span(ids).subspan(at, 1));
    const auto actual = two.append(std::span(ids).subspan(at, 1));
    if (at % 7 == 0) expect_close(actual, expected, "token " + std::to_string(at));
  }
}

INSTANTIATE_TEST_SUITE_P(All, WindowFamilies,
                         testing::Values("cohere2", "dots1", "exaone4", "gemma2", "gemma3", "gemma3n", "gpt_oss",
                                         "llama4_text", "mistral", "olmo3"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace gabbro
