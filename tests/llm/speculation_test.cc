// Speculation never changes what a model says: the same tokens for the same seed, and the model's own distribution.
#include "src/engine/speculation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "gabbro/engine/generate.h"
#include "src/base/error.h"
#include "src/engine/tree_runner.h"
#include "tests/llm/cache_tolerance.h"
#include "tests/llm/tiny_model.h"

namespace gabbro {
namespace {

using test::TinyModel;

constexpr int32_t kVocabulary = TinyModel::kV;
const std::vector<int32_t> kPrompt = {10, 200, 31, 7, 100, 200, 31, 7};

std::shared_ptr<Engine> load(const char* name, TinyModel model = test::tiny_llama({.tied = false})) {
  return Engine::load(model.write(name), {.threads = 2, .sequences = 8});
}

// Kernels for a token and kernels for a batch add up in another order.
double logits_tolerance(std::span<const float> logits, int64_t tokens) {
  const float largest = std::ranges::max(logits, {}, [](float x) { return std::abs(x); });
  return std::abs(largest) * test::cache_tolerance(DType::f16, TinyModel::kL, tokens);
}

// Right half of the time, and else wrong.
class CoinDrafter : public Drafter {
 public:
  CoinDrafter(std::shared_ptr<Engine> engine, int most) : model_(engine, *engine, most) {}
  std::vector<int32_t> propose(std::span<const int32_t> tokens, int count, const std::atomic<bool>* cancel) override {
    std::vector<int32_t> drafted = model_.propose(tokens, count, cancel);
    for (int32_t& token : drafted) {
      if (random_() % 2 == 0) token = static_cast<int32_t>(random_() % kVocabulary);
    }
    return drafted;
  }
  int most() const override { return model_.most(); }

 private:
  DraftModel model_;
  std::mt19937 random_{7};
};

// Trees whose branches are wrong tokens, but for one, which is right half of the time at each step; it is the first or
// a later branch.
class TreeDrafter : public Drafter {
 public:
  TreeDrafter(std::shared_ptr<Engine> engine, int depth) : model_(engine, *engine, depth), depth_(depth) {}
  std::vector<int32_t> propose(std::span<const int32_t> tokens, int count, const std::atomic<bool>* cancel) override {
    return model_.propose(tokens, count, cancel);
  }
  TokenTree propose_tree(std::span<const int32_t> tokens, DraftBudget& budget,
                         const std::atomic<bool>* cancel) override {
    TokenTree tree;
    int32_t last = -1;
    for (const int32_t likely : model_.propose(tokens, std::min(depth_, budget.depth()), cancel)) {
      const int32_t token = random_() % 2 == 0 ? likely : any();
      const auto decoys = static_cast<int>(random_() % 3);
      for (int i = 0; i < decoys; ++i) {
        const int32_t decoy = any();
        if (decoy == token || tree.child(last, decoy) >= 0 || !budget.take_branch()) continue;
        const int32_t wrong = tree.add(last, decoy);
        if (std::ssize(tree.path(wrong)) < budget.depth()) tree.add(wrong, any());
      }
      last = tree.add(last, token);
      branched_ = branched_ || tree.leaves().size() > 1;
    }
    return tree;
  }
  int most() const override { return 64; }
  bool branched() const { return branched_; }

 private:
  int32_t any() { return static_cast<int32_t>(random_() % kVocabulary); }

  DraftModel model_;
  int depth_;
  bool branched_ = false;
  std::mt19937 random_{11};
};

GenerateOptions options_of(float temperature, uint64_t seed, int tokens) {
  GenerateOptions options{.max_tokens = tokens, .ignore_end = true};
  options.sampler.temperature = temperature;
  options.sampler.top_k = 0;
  options.sampler.top_p = 1;
  options.sampler.min_p = 0;
  options.sampler.seed = seed;
  return options;
}

TEST(Speculation, GivesTheTokensOfARunWithout) {
  const auto engine = load("speculation");
  const std::shared_ptr<Drafter> drafters[] = {
      std::make_shared<PromptLookup>(8), std::make_shared<DraftModel>(engine, *engine, 6),
      std::make_shared<CoinDrafter>(engine, 5), std::make_shared<TreeDrafter>(engine, 4)};
  for (const float temperature : {0.0f, 1.0f}) {
    GenerateOptions options = options_of(temperature, 5, 60);
    Session plain(engine);
    const GenerateResult expected = generate(plain, kPrompt, options);
    EXPECT_EQ(expected.drafted_tokens, 0);
    for (const auto& drafter : drafters) {
      options.drafter = drafter;
      Session session(engine);
      const GenerateResult got = generate(session, kPrompt, options);
      EXPECT_EQ(got.token_ids, expected.token_ids) << "temperature " << temperature;
      EXPECT_LE(got.accepted_tokens, got.drafted_tokens);
      // The session goes on where the text ends.
      EXPECT_LE(session.tokens().size(), kPrompt.size() + got.token_ids.size());
    }
  }
  EXPECT_TRUE(static_cast<const TreeDrafter&>(*drafters[3]).branched());
}

TEST(Speculation, ADraftThatIsRightSavesPasses) {
  const auto engine = load("speculation");
  GenerateOptions options = options_of(0, 1, 64);
  options.drafter = std::make_shared<DraftModel>(engine, *engine, 8);
  Session session(engine);
  const GenerateResult result = generate(session, kPrompt, options);
  EXPECT_GT(result.accepted_tokens, 45);  // of 63; the last drafts reach beyond the end
  EXPECT_LT(result.passes, 20);
}

// A draft model that is certain (its most likely token has probability 1 in f64), with pairs of equally likely tokens:
// greedy sampling takes the first of a pair, and so do drafts.
TEST(Speculation, ADraftThatIsCertainTakesTheFirstOfEquals) {
  TinyModel model = test::tiny_llama({.tied = false});
  std::vector<float>& head = model.tensors.at("output.weight").values;
  for (float& x : head) x *= 1000;
  constexpr int64_t kHalf = kVocabulary / 2;
  std::copy_n(head.begin(), kHalf * TinyModel::kC, head.begin() + kHalf * TinyModel::kC);
  const auto engine = load("certain", model);
  GenerateOptions options = options_of(0, 1, 64);
  options.drafter = std::make_shared<DraftModel>(engine, *engine, 8);
  Session session(engine);
  const GenerateResult result = generate(session, kPrompt, options);
  EXPECT_GT(result.accepted_tokens, 45);  // of 63; the last drafts reach beyond the end
  EXPECT_LT(result.passes, 20);
}

// The logits of each branch equal the logits of only its tokens, and the session goes on from the one that is kept.
TEST(Speculation, ATreeIsAsManyTexts) {
  const auto engine = load("speculation");
  TokenTree tree;
  const int32_t a = tree.add(-1, 3), b = tree.add(-1, 90), c = tree.add(b, 17), d = tree.add(b, 44), e = tree.add(d, 9);
  for (const int length : {8, 61, 63, 64, 65}) {  // branches cross the bounds of pages
    std::vector<int32_t> text;
    for (int i = 0; i < length; ++i) text.push_back((i * 29 + 5) % kVocabulary);
    Runner runner(engine);
    TreeRunner trees(runner);
    Sequence sequence(engine);
    const auto append = [&](std::span<const int32_t> tokens, Chunk::Rows rows) {
      const Chunk chunk{&sequence, tokens, rows};
      return runner.step(std::span(&chunk, 1));
    };
    append(text, Chunk::Rows::kLast);
    const int32_t root[] = {77};
    const std::span<const float> got = trees.step(sequence, root, tree, nullptr);
    ASSERT_EQ(got.size(), 6u * kVocabulary);
    const std::vector<float> logits(got.begin(), got.end());
    trees.keep_branch(sequence, root, e);
    const int32_t more[] = {5, 6};
    const std::span<const float> after = append(more, Chunk::Rows::kAll);
    const auto expect_same = [&](std::span<const float> actual, std::vector<int32_t> tokens) {
      Session alone(engine);
      tokens.insert(tokens.begin(), text.begin(), text.end());
      const std::span<const float> expected = alone.append(tokens);
      const double tolerance = logits_tolerance(expected, length);
      for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], tolerance) << length;
    };
    const auto row = [&](int32_t node) {
      return std::span(logits).subspan(static_cast<size_t>(1 + node) * kVocabulary, kVocabulary);
    };
    expect_same(row(-1), {77});
    expect_same(row(a), {77, 3});
    expect_same(row(b), {77, 90});
    expect_same(row(c), {77, 90, 17});
    expect_same(row(d), {77, 90, 44});
    expect_same(row(e), {77, 90, 44, 9});
    expect_same(after.subspan(kVocabulary), {77, 90, 44, 9, 5, 6});
    EXPECT_EQ(sequence.tokens().size(), text.size() + 6);
  }
}

TEST(Speculation, StopsWhereTheTextDoes) {
  const auto engine = load("speculation");
  GenerateOptions options = options_of(0, 1, 7);
  Session plain(engine), session(engine);
  const auto expected = generate(plain, kPrompt, options).token_ids;
  options.drafter = std::make_shared<DraftModel>(engine, *engine, 16);
  EXPECT_EQ(generate(session, kPrompt, options).token_ids, expected);
  // To the end of the context.
  options = options_of(0, 1, -1);
  options.drafter = std::make_shared<DraftModel>(engine, *engine, 16);
  const GenerateResult full = generate(session, kPrompt, options);
  EXPECT_EQ(full.stop_reason, StopReason::kContextFull);
}

// Branches need pages besides the text's, which leaves none at the end of the context.
TEST(Speculation, TreesGoOnToTheEndOfTheContext) {
  for (const int64_t sequences : {1, 3}) {
    const auto engine = Engine::load(test::tiny_llama({.tied = false}).write("speculation"),
                                     {.threads = 2, .context = 100, .sequences = sequences});
    const auto drafter = std::make_shared<TreeDrafter>(load("speculation_draft"), 4);
    for (const float temperature : {0.0f, 1.0f}) {
      GenerateOptions options = options_of(temperature, 3, -1);
      std::vector<int32_t> expected;
      {
        Session plain(engine);  // its pages are free again after it
        expected = generate(plain, kPrompt, options).token_ids;
      }
      options.drafter = drafter;
      Session session(engine);
      const GenerateResult got = generate(session, kPrompt, options);
      EXPECT_EQ(got.token_ids, expected) << sequences << " sequences, temperature " << temperature;
      EXPECT_EQ(got.stop_reason, StopReason::kContextFull);
      EXPECT_GT(got.accepted_tokens, 0);
    }
    EXPECT_EQ(drafter->branched(), sequences > 1);
  }
}

TEST(Speculation, ATreeFillsTheContextAndNoMore) {
  constexpr int64_t kContext = 128;
  const auto engine = Engine::load(test::tiny_llama({.tied = false}).write("speculation"),
                                   {.threads = 2, .context = kContext, .sequences = 4});
  TokenTree tree;  // two levels
  const int32_t a = tree.add(-1, 3);
  tree.add(a, 90);
  const int32_t last = tree.add(tree.add(-1, 17), 44);
  const int32_t root[] = {77};
  std::vector<int32_t> text;
  while (std::ssize(text) < kContext - 3) text.push_back(static_cast<int32_t>(text.size()) * 29 % kVocabulary);
  for (const bool fits : {false, true}) {
    Runner runner(engine);
    TreeRunner trees(runner);
    Sequence sequence(engine);
    const auto append = [&](std::span<const int32_t> tokens) {
      const Chunk chunk{&sequence, tokens};
      runner.step(std::span(&chunk, 1));
    };
    append(text);
    if (!fits) append(std::vector<int32_t>{5});
    const auto held = sequence.tokens().size();
    if (!fits) {
      EXPECT_THROW(trees.step(sequence, root, tree, nullptr), Error);
      EXPECT_EQ(sequence.tokens().size(), held);
      append(root);  // it goes on
      continue;
    }
    ASSERT_GE(trees.branch_room(), 1);
    const std::vector<float> logits = [&] {
      const auto got = trees.step(sequence, root, tree, nullptr);
      return std::vector<float>(got.begin(), got.end());
    }();
    trees.keep_branch(sequence, root, last);
    EXPECT_EQ(std::ssize(sequence.tokens()), kContext);
    EXPECT_THROW(append(root), Error);
    Session alone(engine);
    std::vector<int32_t> whole = text;
    whole.insert(whole.end(), {77, 17, 44});
    const auto expected = alone.append(whole);
    const double tolerance = logits_tolerance(expected, kContext);
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(logits[(1 + last) * kVocabulary + i], expected[i], tolerance);
  }
}

TEST(Speculation, RefusesADraftModelOfAnotherVocabulary) {
  const auto engine = load("speculation");
  TinyModel other = test::tiny_llama({.tied = false});
  if (!other.tokens.empty()) other.tokens[5] += "x";
  const auto draft = load("speculation_other", other);
  if (other.tokens.empty()) GTEST_SKIP() << "the tiny model's vocabulary is generated";
  EXPECT_THROW(DraftModel(draft, *engine, 4), Error);
}

// For tokens that are drawn from the model's distributions p, F(t) - U p(t) is uniform, F being the cumulative sum up
// to and with the token t, and U uniform: 20 cells of such numbers, whose chi-square has 19 degrees of freedom. 1,200
// of them; 20,000 with GABBRO_LONG_TESTS, in a minute.
TEST(Speculation, DrawsFromTheModelsDistribution) {
  constexpr int kTokens = 200, kCells = 20;
  const int texts = std::getenv("GABBRO_LONG_TESTS") != nullptr ? 100 : 6;
  const auto engine = load("speculation");
  std::vector<int> cells(kCells);
  std::mt19937_64 random(3);
  const std::shared_ptr<Drafter> drafters[] = {std::make_shared<CoinDrafter>(engine, 4),
                                               std::make_shared<TreeDrafter>(engine, 3)};
  for (int i = 0; i < texts; ++i) {
    GenerateOptions options = options_of(1, static_cast<uint64_t>(i) + 1, kTokens);
    options.drafter = drafters[i % 2];
    Session session(engine), judge(engine);
    std::vector<int32_t> text = kPrompt;
    const auto drawn = generate(session, kPrompt, options).token_ids;
    text.insert(text.end(), drawn.begin(), drawn.end());
    const std::span<const float> logits = judge.append_all_logits(text);
    for (size_t t = kPrompt.size(); t < text.size(); ++t) {
      const auto row = logits.subspan((t - 1) * kVocabulary, kVocabulary);
      const float largest = *std::ranges::max_element(row);
      double sum = 0, before = 0, own = 0;
      for (int32_t v = 0; v < kVocabulary; ++v) {
        const double e = std::exp(static_cast<double>(row[static_cast<size_t>(v)] - largest));
        sum += e;
        if (v < text[t]) before += e;
        if (v == text[t]) own = e;
      }
      const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
      const double place = (before + uniform * own) / sum;
      ++cells[static_cast<size_t>(std::min(kCells - 1, static_cast<int>(place * kCells)))];
    }
  }
  double chi_square = 0;
  const double expected = static_cast<double>(texts) * kTokens / kCells;
  for (const int count : cells) chi_square += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi_square, 43.8);  // exceeded with a probability of 0.001
}

}  // namespace
}  // namespace gabbro
