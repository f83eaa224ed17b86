// Steps that are queued while the one before them runs, against steps that are not.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>

#include "src/base/error.h"
#include "src/engine/batch.h"
#include "tests/llm/runner_fixture.h"

namespace gabbro {
namespace {

using test::greedy;
using test::tiny_llama;
using test::TinyModel;

constexpr int64_t kVocabularySize = TinyModel::kV;

// Greedy tokens of several sequences, each step queued while the one before it runs where the device has its own
// memory.
class StepsAhead : public test::RunnerTest {
 protected:
  // A sequence, its prompt, and the tokens that were found after it.
  struct Text {
    Text(const std::shared_ptr<Engine>& of, std::vector<int32_t> begin)
        : engine(of), sequence(of), prompt(std::move(begin)) {}
    Text(const Text&) = default;

    std::shared_ptr<Engine> engine;
    Sequence sequence;
    std::vector<int32_t> prompt, found{};
    int32_t last = 0;  // that is appended next

    Chunk chunk() {
      if (found.empty()) return {&sequence, prompt};
      last = std::max(found.back(), 0);
      return {&sequence, std::span(&last, 1)};
    }
  };

  static void step(Runner& runner, std::span<Text* const> texts, bool goes_on,
                   const std::atomic<bool>* cancel = nullptr) {
    std::vector<Chunk> chunks;
    for (Text* const text : texts) chunks.push_back(text->chunk());
    const std::span<const int32_t> ids = runner.step_greedy(chunks, cancel, goes_on);
    ASSERT_EQ(ids.size(), texts.size());
    for (size_t i = 0; i < texts.size(); ++i) texts[i]->found.push_back(ids[i]);
  }
  void steps(Runner& runner, std::span<Text* const> texts, int count) const {
    for (int i = 0; i < count; ++i) step(runner, texts, goes_on_);
  }

  // The tokens that were found, and logits after them, which show whether the sequence's keys and values are right.
  void look_at(Text& text) {
    Runner runner(text.engine);
    const Chunk last = text.chunk();
    seen_.push_back({text.found, rows_of(runner.step(std::span(&last, 1))).back()});
    text.sequence.truncate(std::ssize(text.sequence.tokens()) - 1);
  }
  // Results are the same, to the bit, whether steps are queued ahead or not.
  void compare(const std::function<void()>& look) {
    look();
    const std::vector<Seen> ahead = std::exchange(seen_, {});
    goes_on_ = false;
    look();
    EXPECT_FALSE(ahead.empty());
    EXPECT_EQ(ahead, seen_);
  }

  bool is_ahead(const std::shared_ptr<Engine>& engine) const { return goes_on_ && engine->facts().device_id != "cpu"; }

  using Seen = std::pair<std::vector<int32_t>, std::vector<float>>;
  std::vector<Seen> seen_;
  bool goes_on_ = true;
};

TEST_F(StepsAhead, FindTheSameTokens) {
  for (const size_t count : {1, 3, 16}) {
    const auto engine = load(static_cast<int64_t>(count));
    Runner runner(engine);
    std::deque<Text> texts;
    std::vector<Text*> all;
    for (size_t i = 0; i < count; ++i)
      all.push_back(&texts.emplace_back(engine, prompt(static_cast<int64_t>(i), 3 + 7 * i)));
    const int made = count == 3 ? 112 : 30;  // over ends of pages, of each at another step
    steps(runner, all, made);
    // The prompts' step, and the one after it, are not queued before.
    EXPECT_EQ(runner.steps_queued_before(), is_ahead(engine) ? made - 2 : 0);
    const auto other = load(static_cast<int64_t>(count));
    Runner plain(other);
    std::deque<Text> expected;
    std::vector<Text*> all_expected;
    for (const Text& text : texts) all_expected.push_back(&expected.emplace_back(other, text.prompt));
    for (int i = 0; i < made; ++i) step(plain, all_expected, false);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(texts[i].found, expected[i].found) << i << " of " << count;
    EXPECT_EQ(plain.steps_queued_before(), 0);
  }
}

TEST_F(StepsAhead, GoOnWithSomeOfTheSequencesInAnyOrder) {
  compare([&] {
    const auto engine = load(4);
    Runner runner(engine);
    std::deque<Text> texts;
    for (int64_t i = 0; i < 4; ++i) texts.emplace_back(engine, prompt(i, 50 + 3 * static_cast<size_t>(i)));
    Text* const all[] = {&texts[0], &texts[1], &texts[2], &texts[3]};
    steps(runner, all, 5);
    const int64_t before = runner.steps_queued_before();
    Text* const some[] = {&texts[3], &texts[0], &texts[2]};
    steps(runner, some, 9);
    // The first of them was queued with all; the second begins.
    EXPECT_EQ(runner.steps_queued_before() - before, is_ahead(engine) ? 8 : 0);
    steps(runner, all, 4);
    for (Text& text : texts) look_at(text);
  });
}

TEST_F(StepsAhead, EndAtTheContext) {
  compare([&] {
    const auto engine = load(2, 128);
    Runner runner(engine);
    Text a(engine, prompt(1, 100)), b(engine, prompt(2, 90));
    Text* const both[] = {&a, &b};
    steps(runner, both, 29);  // the 128th token of a is appended
    EXPECT_THROW(steps(runner, both, 1), Error);
    Text* const rest[] = {&b};
    steps(runner, rest, 10);
    EXPECT_THROW(steps(runner, rest, 1), Error);
    b.sequence.truncate(127);  // room for one more
    b.found.pop_back();
    look_at(b);
  });
}

TEST_F(StepsAhead, AreForgottenWhereASequenceChanges) {
  compare([&] {
    const auto engine = load(6);
    Runner runner(engine);
    for (const size_t length : {56, 59}) {  // the ends of pages are in other places of what follows
      std::deque<Text> texts;
      for (int64_t i = 0; i < 3; ++i) texts.emplace_back(engine, prompt(i + static_cast<int64_t>(length), length));
      std::vector<Text*> all = {&texts[0], &texts[1], &texts[2]};
      steps(runner, all, 5);
      // Cut to its length, and by tokens.
      texts[0].sequence.truncate(std::ssize(texts[0].sequence.tokens()));
      steps(runner, all, 4);
      texts[0].sequence.truncate(std::ssize(texts[0].sequence.tokens()) - 2);
      texts[0].found.resize(texts[0].found.size() - 2);
      steps(runner, all, 4);
      // Copied: both go on, in one step and in sequence.
      texts.push_back(texts[1]);
      Text* const copy[] = {&texts[3]};
      steps(runner, all, 2);
      steps(runner, copy, 2);
      all.push_back(&texts[3]);
      steps(runner, all, 3);
      // Another token than was found.
      const int32_t other = (texts[2].found.back() + 1) % static_cast<int32_t>(kVocabularySize);
      texts[2].prompt.insert(texts[2].prompt.end(), texts[2].found.begin(), texts[2].found.end() - 1);
      texts[2].prompt.push_back(other);
      texts[2].found = {other};
      std::vector<Chunk> chunks;
      for (Text* const text : all) chunks.push_back(text->chunk());
      const std::span<const int32_t> ids = runner.step_greedy(chunks, nullptr, goes_on_);
      for (size_t i = 0; i < all.size(); ++i) all[i]->found.push_back(ids[i]);
      texts[2].found.erase(texts[2].found.begin());
      steps(runner, all, 3);
      for (Text& text : texts) look_at(text);
      // Destroyed: another takes its pages.
      texts.pop_back();
      Text fresh(engine, prompt(77, 20));
      Text* const mixed[] = {&fresh, &texts[0]};
      steps(runner, mixed, 8);
      look_at(fresh);
      look_at(texts[0]);
    }
  });
}

TEST_F(StepsAhead, HaveAPageThatACopyDoesNotShare) {
  compare([&] {
    const auto engine = load(2);
    Runner runner(engine);
    Text a(engine, prompt(1, 60));
    Text* const first[] = {&a};
    steps(runner, first, 5);  // 64 tokens; the next one is queued, and has its page
    Text b = a;
    b.prompt.insert(b.prompt.end(), b.found.begin(), b.found.end() - 1);
    b.prompt.push_back((b.found.back() + 1) % static_cast<int32_t>(kVocabularySize));
    b.found = {b.prompt.back()};
    Text* const second[] = {&b};
    Text* const both[] = {&a, &b};
    steps(runner, second, 1);
    steps(runner, first, 1);
    steps(runner, both, 3);
    b.found.erase(b.found.begin());
    look_at(a);
    look_at(b);
  });
}

TEST_F(StepsAhead, LeaveAPageThatReuseReplaces) {
  compare([&] {
    const auto engine = load(2);
    Runner runner(engine);
    Text a(engine, prompt(1, 60)), b(engine, prompt(1, 60));
    Text* const first[] = {&a};
    Text* const second[] = {&b};
    steps(runner, first, 70);
    steps(runner, second, 5);  // 64 tokens; the next one is queued, and has its page
    EXPECT_EQ(b.sequence.reuse(a.sequence.tokens()), 128);
    b.found.assign(a.found.begin(), a.found.end() - 1);
    steps(runner, second, 5);
    look_at(b);
  });
}

// Cut, and grown again without a step: with the same length and token, after others.
TEST_F(StepsAhead, AreForgottenWhereReuseReplacesTokens) {
  compare([&] {
    const auto engine = load(2);
    Runner runner(engine);
    Text a(engine, prompt(1, 124));
    std::vector<int32_t> other(a.prompt.begin(), a.prompt.begin() + 64);
    for (const int32_t token : prompt(2, 65)) other.push_back(token);
    Sequence b(engine);
    const Chunk chunk{&b, other};
    runner.step(std::span(&chunk, 1));
    Text* const first[] = {&a};
    steps(runner, first, 5);
    ASSERT_EQ(a.sequence.tokens().size(), 128);
    a.sequence.truncate(64);
    ASSERT_EQ(a.sequence.reuse(other), 128);
    a.prompt.assign(other.begin(), other.begin() + 128);
    a.prompt.push_back(a.found.back());
    a.found = {a.found.back()};
    steps(runner, first, 3);
    a.found.erase(a.found.begin());
    look_at(a);
  });
}

TEST_F(StepsAhead, OfTwoRunnersOnOneEngine) {
  compare([&] {
    const auto engine = load(4);
    Runner one(engine), two(engine);
    Text a(engine, prompt(1, 40)), b(engine, prompt(2, 50)), c(engine, prompt(3, 60)), d(engine, prompt(4, 62));
    Text* const first[] = {&a, &b};
    Text* const second[] = {&c, &d};
    for (int i = 0; i < 10; ++i) {
      steps(one, first, 1 + i % 3);
      steps(two, second, 1 + i % 2);
      if (i % 4 == 0) steps(two, first, 1);
    }
    Session session(engine);  // and one that wants logits
    session.append(prompt(5, 33));
    steps(one, first, 2);
    session.append(prompt(6, 1));
    steps(one, first, 2);
    for (Text* const text : {&a, &b, &c, &d}) look_at(*text);
  });
}

TEST_F(StepsAhead, AreCanceled) {
  compare([&] {
    const auto engine = load(2);
    Runner runner(engine);
    Text a(engine, prompt(1, 60)), b(engine, prompt(2, 61));
    Text* const both[] = {&a, &b};
    std::atomic<bool> cancel = false;
    for (int i = 0; i < 6; ++i) {
      steps(runner, both, 3);
      const size_t before = a.sequence.tokens().size();
      cancel = true;
      try {
        step(runner, both, goes_on_, &cancel);  // may be there already
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInterrupted);
        EXPECT_EQ(a.sequence.tokens().size(), before);
      }
      cancel = false;
    }
    look_at(a);
    look_at(b);
  });
}

// Once a sequence has a token whose embedding is NaN, its logits are NaN: the host's rule holds.
TEST_F(StepsAhead, KeepTheRuleWithoutLogits) {
  TinyModel model = tiny_llama({.tied = false});
  const std::vector<int32_t> begin = prompt(1, 8), other = prompt(2, 9);
  const auto sound = Engine::load(model.write("runner"), {.threads = 2, .sequences = 1});
  const std::vector<int32_t> tokens = greedy(sound, begin, 8);
  constexpr size_t kBad = 3;  // of them, and not before
  const int32_t bad_token = tokens[kBad];
  ASSERT_EQ(std::ranges::count(begin, bad_token) + std::ranges::count(other, bad_token), 0);
  ASSERT_EQ(std::ranges::find(tokens, bad_token) - tokens.begin(), static_cast<std::ptrdiff_t>(kBad));
  test::TinyTensor& embeddings = model.tensors.at("token_embd.weight");
  embeddings.values[static_cast<size_t>(bad_token * TinyModel::kC)] = std::numeric_limits<float>::quiet_NaN();
  const auto engine = Engine::load(model.write("runner_nan"), {.threads = 2, .sequences = 2, .check_weights = false});
  Runner ahead(engine), plainly(engine);
  Text a(engine, begin), b(engine, begin), c(engine, other), d(engine, other);
  Text* const first[] = {&a, &c};
  Text* const second[] = {&b, &d};
  for (int i = 0; i < 8; ++i) step(ahead, first, true);
  for (int i = 0; i < 8; ++i) {
    std::vector<Chunk> chunks;
    for (Text* const text : second) chunks.push_back(text->chunk());
    const std::vector<std::vector<float>> rows = rows_of(plainly.step(chunks));
    for (size_t t = 0; t < 2; ++t) second[t]->found.push_back(sampling::argmax(rows[t]));
  }
  EXPECT_EQ(a.found, b.found);
  EXPECT_EQ(c.found, d.found);
  EXPECT_EQ(std::ranges::find(a.found, -1) - a.found.begin(), static_cast<std::ptrdiff_t>(kBad + 1));
}

TEST_F(StepsAhead, OfABatchEndWithEachRequest) {
  const auto engine = load(4);
  std::vector<Request> requests;
  std::vector<std::vector<int32_t>> prompts;
  for (int i = 0; i < 5; ++i) {  // one waits
    prompts.push_back(prompt(i, 50 + 5 * static_cast<size_t>(i)));
    const GenerateOptions options{.max_tokens = 4 + 3 * i, .sampler = {.temperature = 0}, .ignore_end = true};
    requests.emplace_back(*engine, prompts.back(), options);
  }
  std::vector<std::vector<int32_t>> found(requests.size());
  run_batch(engine, requests, {.on_finished = [&](size_t i) { found[i] = requests[i].take().token_ids; }});
  const auto other = load(1);
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i], greedy(other, prompts[i], 4 + 3 * static_cast<int>(i))) << i;
}

// A request goes on while another token follows the next one for sure.
TEST_F(StepsAhead, RequestsGoOnUntilTheirLastTokenIsNext) {
  const auto engine = load(1, 64);
  const auto steps_that_go_on = [&](int max_tokens, size_t length) {
    const GenerateOptions options{.max_tokens = max_tokens, .sampler = {.temperature = 0}, .ignore_end = true};
    Request request(*engine, prompt(1, length), options);
    EXPECT_FALSE(request.goes_on());
    request.appended(length - 1, -1);
    EXPECT_FALSE(request.goes_on());
    int64_t steps = 0;
    for (request.appended(1, 7); request.goes_on(); ++steps) request.appended(1, 7);
    EXPECT_FALSE(request.finished());
    request.appended(1, 7);
    EXPECT_TRUE(request.finished());
    return steps;
  };
  EXPECT_EQ(steps_that_go_on(5, 10), 3);   // the first token is the prompt's, the last is not followed
  EXPECT_EQ(steps_that_go_on(-1, 60), 3);  // 60 + 4 fill the context, and one token more is chosen
}

}  // namespace
}  // namespace gabbro
