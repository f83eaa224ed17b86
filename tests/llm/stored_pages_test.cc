// Pages of texts on disk: another engine takes them over and goes on with the same tokens.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "src/engine/scheduler.h"
#include "tests/llm/recorded_answer.h"
#include "tests/llm/tiny_model.h"

namespace gabbro {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTextTokens = 400;  // six pages and a part of one

class StoredPages : public testing::Test {
 protected:
  ~StoredPages() override { fs::remove_all(folder_); }

  struct Run {
    std::shared_ptr<Engine> engine;
    std::unique_ptr<Scheduler> loop;
  };
  Run open(DType kv_type = DType::f16, bool deterministic = false) {
    Run run;
    run.engine = Engine::load(path_, {.threads = 2, .context = 1024, .sequences = 2, .kv_type = kv_type});
    run.loop = std::make_unique<Scheduler>(
        run.engine, SchedulerOptions{.deterministic = deterministic,
                                     .store = {.folder = folder_.string(), .bytes = uint64_t{1} << 30}});
    return run;
  }
  static GenerationRequest request(size_t length = kTextTokens, int seed = 1) {
    GenerationRequest made;
    for (size_t i = 0; i < length; ++i)
      made.prompt.push_back(static_cast<int32_t>((i * i * 3 + i * static_cast<size_t>(seed) + 5) %
                                                 static_cast<size_t>(test::TinyModel::kV)));
    made.options.max_tokens = 12;
    made.options.ignore_end = true;
    made.options.sampler.temperature = 0;
    return made;
  }
  static GenerateResult answer(Run& run, const GenerationRequest& wanted) {
    return generate(*run.loop, wanted, {}, nullptr);
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& file : fs::directory_iterator(folder_)) found.push_back(file.path());
    return found;
  }

  const std::string path_ = test::tiny_llama().write("stored_pages");
  const fs::path folder_ = fs::temp_directory_path() / ("gabbro_stored_pages_" + std::to_string(::getpid()));
};

TEST_F(StoredPages, AnotherEngineTakesThemOver) {
  for (const DType type : {DType::f16, DType::q8_0, DType::f32}) {
    Run first = open(type);
    const GenerateResult expected = answer(first, request());
    EXPECT_EQ(expected.cached_tokens, 0);
    first = {};
    Run second = open(type);
    const GenerateResult again = answer(second, request());
    EXPECT_EQ(again.cached_tokens, 384);
    EXPECT_EQ(again.token_ids, expected.token_ids);
    // A conversation that goes on takes over its answer too.
    GenerationRequest longer = request();
    longer.prompt.insert(longer.prompt.end(), expected.token_ids.begin(), expected.token_ids.end());
    longer.prompt.resize(500, 7);
    const GenerateResult next = answer(second, longer);
    second = {};
    fs::remove_all(folder_);
    Run fresh = open(type);
    EXPECT_EQ(answer(fresh, longer).token_ids, next.token_ids);
    fresh = {};
    fs::remove_all(folder_);
  }
}

TEST_F(StoredPages, OnlyTheSameBeginningIsTakenOver) {
  Run first = open();
  answer(first, request());
  first = {};
  Run second = open();
  GenerationRequest other = request();
  other.prompt[200] += 1;  // in the fourth page
  EXPECT_EQ(answer(second, other).cached_tokens, 192);
  GenerationRequest salted = request();
  salted.tree = "another";
  EXPECT_EQ(answer(second, salted).cached_tokens, 0);
  EXPECT_EQ(answer(second, request(64)).cached_tokens, 0);  // the last token is computed
  EXPECT_EQ(answer(second, request(65)).cached_tokens, 64);
  Run of_another_type = open(DType::f32);
  EXPECT_EQ(answer(of_another_type, request()).cached_tokens, 0);
  Run deterministic = open(DType::f16, true);
  EXPECT_EQ(answer(deterministic, request()).cached_tokens, 0);
}

TEST_F(StoredPages, ADamagedFileCostsItsPage) {
  Run first = open();
  const GenerateResult expected = answer(first, request());
  first = {};
  int64_t before = 384;
  while (before > 0) {
    // The largest file is of the longest beginning.
    std::vector<fs::path> all = files();
    std::ranges::sort(all, {}, [](const fs::path& file) { return fs::file_size(file); });
    std::fstream file(all.back(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-100, std::ios::end);
    file << "damage";
    file.close();
    Run second = open();
    const GenerateResult again = answer(second, request());
    before -= 64;
    EXPECT_EQ(again.cached_tokens, before);
    EXPECT_EQ(again.token_ids, expected.token_ids);
    second = {};
    std::vector<fs::path> now = files();  // the pages after it were written again
    std::ranges::sort(now, {}, [](const fs::path& one) { return fs::file_size(one); });
    while (std::ssize(now) > before / 64) {
      fs::remove(now.back());
      now.pop_back();
    }
  }
}

TEST_F(StoredPages, AFullCacheTakesNone) {
  Run first = open();
  answer(first, request(900));
  first = {};
  Run second = open();
  // Two texts of the whole context have all pages.
  const auto a = std::make_shared<test::RecordedAnswer>(), b = std::make_shared<test::RecordedAnswer>();
  GenerationRequest long_one = request(1000, 2), other = request(1000, 3);
  second.loop->add(long_one, a);
  second.loop->add(other, b);
  const auto c = std::make_shared<test::RecordedAnswer>();
  second.loop->add(request(900), c);
  while (second.loop->step()) {
  }
  ASSERT_TRUE(a->result && b->result && c->result);
  EXPECT_EQ(c->result->cached_tokens, 896);
}

TEST_F(StoredPages, TreesShareNothingInMemory) {
  Run run = open();
  GenerationRequest mine = request(), yours = request();
  mine.tree = "mine";
  yours.tree = "yours";
  EXPECT_EQ(answer(run, mine).cached_tokens, 0);
  EXPECT_EQ(answer(run, yours).cached_tokens, 0);
  EXPECT_EQ(answer(run, mine).cached_tokens, std::ssize(mine.prompt) - 1);
  // Together: one does not wait for the other's pages.
  const auto a = std::make_shared<test::RecordedAnswer>(), b = std::make_shared<test::RecordedAnswer>();
  GenerationRequest third = request(kTextTokens, 4), fourth = third;
  third.tree = "mine";
  fourth.tree = "yours";
  run.loop->add(third, a);
  run.loop->add(fourth, b);
  while (run.loop->step()) {
  }
  ASSERT_TRUE(a->result && b->result);
  EXPECT_EQ(a->result->cached_tokens + b->result->cached_tokens, 0);
  EXPECT_EQ(a->result->token_ids, b->result->token_ids);
}

}  // namespace
}  // namespace gabbro
