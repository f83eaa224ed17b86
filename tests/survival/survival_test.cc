// A GPU that runs out of memory, fails or disappears at any moment of a load or a generation: a clear error, nothing
// left behind, and the next one works. On the simulator, whose GABBRO_SIM_FAIL injects the faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include <unistd.h>

#include <fmt/format.h>

#include "gabbro/engine/session.h"
#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/engine/batch.h"
#include "src/engine/scheduler.h"
#include "tests/llm/recorded_answer.h"
#include "tests/llm/tiny_model.h"

#ifdef __SANITIZE_ADDRESS__
extern "C" size_t __sanitizer_get_current_allocated_bytes();  // of sanitizer/allocator_interface.h
#endif

namespace gabbro {
namespace {

using testing::HasSubstr;

constexpr const char* kDevice = "sim:0";

class Survival : public testing::Test {
 protected:
  Survival() { ::setenv("GABBRO_TUNING_FILE", "", 1); }  // verdicts on copies would be kept there
  ~Survival() override { ::unsetenv("GABBRO_SIM_FAIL"); }

  static std::shared_ptr<Engine> load() {
    static const std::string path = test::tiny_llama().write("survival");
    return Engine::load(path, {.device = kDevice, .context = 128});
  }

  // A prompt and two generated tokens.
  static std::vector<float> generate(const std::shared_ptr<Engine>& engine) {
    Session session(engine);
    const std::vector<int32_t> prompt = {5, 17, 200};
    session.append(prompt);
    session.append(std::vector<int32_t>{9});
    const std::span<const float> logits = session.append(std::vector<int32_t>{11});
    return {logits.begin(), logits.end()};
  }

  static uint64_t used_memory() {
    const abi::DeviceFacts facts = open_device(kDevice)->facts();
    return facts.memory_total - facts.memory_free;
  }

  struct Outcome {
    std::string error;            // empty: it went well
    bool engine_goes_on = false;  // and the next session of the same engine gives the right logits
  };

  // Loads and generates with a fault; whatever comes of it, all memory is free afterward.
  Outcome run_with(const std::string& fault) {
    Outcome outcome;
    std::shared_ptr<Engine> engine;
    ::setenv("GABBRO_SIM_FAIL", fault.c_str(), 1);
    try {
      engine = load();
      EXPECT_EQ(generate(engine), expected_);
    } catch (const Error& error) {
      outcome.error = error.what();
    }
    ::unsetenv("GABBRO_SIM_FAIL");
    try {
      outcome.engine_goes_on = engine != nullptr && generate(engine) == expected_;
    } catch (const Error&) {  // a device that failed stays so
    }
    engine.reset();
    EXPECT_EQ(used_memory(), 0U) << fault;
    return outcome;
  }

  std::vector<float> expected_ = generate(load());
};

TEST_F(Survival, OutOfMemoryAtEveryAllocation) {
  int failures = 0;
  bool engine_went_on = false;
  // Some allocations have an alternative, such as the 20 pieces of the test of ranges; after this many in a row that
  // went well there are no more.
  for (int n = 1, well = 0; well < 25; ++n) {
    const Outcome outcome = run_with(fmt::format("malloc:{}", n));
    well = outcome.error.empty() ? well + 1 : 0;
    if (outcome.error.empty()) continue;
    ++failures;
    engine_went_on = engine_went_on || outcome.engine_goes_on;  // where it was a session's memory that was not there
    EXPECT_THAT(outcome.error, HasSubstr("out of memory")) << n;
    EXPECT_THAT(outcome.error, HasSubstr(kDevice)) << n;
  }
  EXPECT_GT(failures, 10);
  EXPECT_TRUE(engine_went_on);
  EXPECT_EQ(generate(load()), expected_);
}

TEST_F(Survival, AFailedLaunchAndALostDevice) {
  for (const char* fault : {"launch", "lost"}) {
    int failures = 0;
    for (int n = 1; run_with(fmt::format("{}:{}", fault, n)).error != ""; n += 7) {
      ++failures;
      const Outcome outcome = run_with(fmt::format("{}:{}", fault, n));
      EXPECT_THAT(outcome.error, HasSubstr(fault == std::string("lost") ? "lost" : "injected failure of a launch"));
      EXPECT_THAT(outcome.error, HasSubstr(kDevice));
      EXPECT_FALSE(outcome.engine_goes_on);
    }
    EXPECT_GT(failures, 3) << fault;
    EXPECT_EQ(generate(load()), expected_);
  }
}

// Requests of a batch on a device whose KV cache cannot grow beyond some pages.
class FullCache : public Survival {
 protected:
  static constexpr const char* kFourPages = "ranges:147456";  // of K and V in two layers, 8 KiB each

  static std::shared_ptr<Engine> load_batch() {
    static const std::string path = test::tiny_llama().write("survival");
    return Engine::load(path, {.device = kDevice, .context = 512, .sequences = 4, .kv_type = DType::f32});
  }

  struct Found {
    std::vector<std::vector<int32_t>> tokens;  // by request; empty where it failed
    std::vector<std::string> errors;
  };

  static Found run(const std::shared_ptr<Engine>& engine, const std::vector<size_t>& prompts) {
    std::vector<Request> requests;
    for (size_t i = 0; i < prompts.size(); ++i) {
      std::vector<int32_t> ids(prompts[i]);
      for (size_t k = 0; k < ids.size(); ++k) ids[k] = static_cast<int32_t>((k * 7 + i * 31 + 3) % 300);
      const GenerateOptions options{.max_tokens = 8, .sampler = {.temperature = 0}, .ignore_end = true};
      requests.emplace_back(*engine, ids, options);
    }
    Found found{.tokens = std::vector<std::vector<int32_t>>(prompts.size()),
                .errors = std::vector<std::string>(prompts.size())};
    run_batch(engine, requests,
              {.on_finished = [&](size_t i) { found.tokens[i] = requests[i].take().token_ids; },
               .on_failed = [&](size_t i, const Error& error) { found.errors[i] = error.what(); }});
    return found;
  }
};

// Four requests of two pages each: two wait, and all get the tokens that they get with enough memory.
TEST_F(FullCache, ARequestWaitsForRoom) {
  const std::vector<size_t> prompts = {58, 59, 60, 61};
  const Found expected = run(load_batch(), prompts);
  ::setenv("GABBRO_SIM_FAIL", kFourPages, 1);
  const auto engine = load_batch();
  const Found found = run(engine, prompts);
  EXPECT_EQ(found.errors, std::vector<std::string>(4));
  EXPECT_EQ(found.tokens, expected.tokens);
  // Pages that are kept for texts to come are taken where there is no memory for others.
  EXPECT_EQ(run(engine, {200}).tokens, run(load_batch(), {200}).tokens);
}

TEST_F(FullCache, ARequestThatNeedsTooMuchFailsAlone) {
  const Found expected = run(load_batch(), {30, 60, 20});
  ::setenv("GABBRO_SIM_FAIL", kFourPages, 1);
  const auto engine = load_batch();
  const Found found = run(engine, {30, 60, 20, 260});  // five pages
  EXPECT_THAT(found.errors[3], HasSubstr("does not fit, also alone: "));
  EXPECT_THAT(found.errors[3], HasSubstr(kDevice));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found.errors[i], "");
    EXPECT_EQ(found.tokens[i], expected.tokens[i]);
  }
  EXPECT_EQ(run(engine, {60}).tokens, run(load_batch(), {60}).tokens) << "the engine goes on";
}

// It is refused before a step if the cache keeps nothing that it could go on from.
TEST_F(FullCache, ARequestThatNeedsTooMuchIsRefusedWithNumbers) {
  ::setenv("GABBRO_SIM_FAIL", kFourPages, 1);
  Scheduler scheduler(load_batch());
  const auto answer = std::make_shared<test::RecordedAnswer>();
  scheduler.add({.prompt = std::vector<int32_t>(260, 5)}, answer);
  while (scheduler.step()) {
  }
  ASSERT_TRUE(answer->error);
  EXPECT_EQ(answer->error->code(), ErrorCode::kBadInput);
  EXPECT_THAT(answer->error->what(), HasSubstr("does not fit, also alone: 260 tokens need 5 pages of 64 tokens"));
  EXPECT_THAT(answer->error->what(), HasSubstr(kDevice));
  EXPECT_EQ(answer->starts, 0);
}

// Three pages each, by the forecast: the second one begins when the first has ended, and none gives its pages up.
TEST_F(FullCache, ARequestWaitsForAShareOfItsAnswer) {
  ::setenv("GABBRO_SIM_FAIL", kFourPages, 1);
  Scheduler scheduler(load_batch());
  std::vector<std::shared_ptr<test::RecordedAnswer>> answers;
  for (int i = 0; i < 2; ++i) {
    answers.push_back(std::make_shared<test::RecordedAnswer>());
    GenerationRequest request{.prompt = std::vector<int32_t>(60, 5 + i)};
    request.options = {.max_tokens = 150, .sampler = {.temperature = 0}, .ignore_end = true};
    scheduler.add(std::move(request), answers.back());
  }
  while (!answers[0]->ended()) {
    ASSERT_TRUE(scheduler.step());
    if (!answers[0]->ended()) ASSERT_EQ(answers[1]->starts, 0);
  }
  while (scheduler.step()) {
  }
  for (const auto& answer : answers) {
    ASSERT_TRUE(answer->result);
    EXPECT_EQ(answer->result->token_ids.size(), 150U);
    EXPECT_EQ(answer->starts, 1);
  }
}

// Pages of a paused request are for those that wait.
TEST_F(FullCache, APausedRequestGivesItsPagesUp) {
  ::setenv("GABBRO_SIM_FAIL", kFourPages, 1);
  Scheduler scheduler(load_batch());
  const auto add = [&](int32_t token) {
    const auto answer = std::make_shared<test::RecordedAnswer>();
    GenerationRequest request{.prompt = std::vector<int32_t>(60, token)};
    request.options = {.max_tokens = 150, .sampler = {.temperature = 0}, .ignore_end = true};
    return std::pair(scheduler.add(std::move(request), answer), answer);
  };
  const auto [ticket, paused] = add(5);
  for (int i = 0; i < 3; ++i) scheduler.step();
  scheduler.pause(ticket, true);
  const auto next = add(6).second;
  while (!next->ended()) ASSERT_TRUE(scheduler.step());
  EXPECT_FALSE(paused->ended());
  scheduler.pause(ticket, false);
  while (scheduler.step()) {
  }
  for (const auto& answer : {next, paused}) {
    ASSERT_TRUE(answer->result);
    EXPECT_EQ(answer->result->token_ids.size(), 150U);
  }
}

// More than four pages in the end: no error.
TEST_F(FullCache, AnAnswerEndsWhereTheMemoryDoes) {
  ::setenv("GABBRO_SIM_FAIL", kFourPages, 1);
  Scheduler scheduler(load_batch());
  const auto answer = std::make_shared<test::RecordedAnswer>();
  GenerationRequest request{.prompt = std::vector<int32_t>(60, 5)};
  request.options = {.max_tokens = 400, .sampler = {.temperature = 0}, .ignore_end = true};
  scheduler.add(std::move(request), answer);
  while (scheduler.step()) {
  }
  ASSERT_TRUE(answer->result);
  EXPECT_EQ(answer->result->stop_reason, StopReason::kContextFull);
  EXPECT_GE(answer->result->token_ids.size(), 4U * 64 - 60);
}

// The runtime refuses to map a piece while requests run.
TEST_F(FullCache, ARefusedPieceEndsNoRequest) {
  const std::vector<size_t> prompts = {30, 60, 20};
  const Found expected = run(load_batch(), prompts);
  for (const int piece : {25, 26, 31, 33}) {  // the test of ranges maps 20
    ::setenv("GABBRO_SIM_FAIL", fmt::format("access:{}", piece).c_str(), 1);
    const Found found = run(load_batch(), prompts);
    EXPECT_EQ(found.errors, std::vector<std::string>(3)) << piece;
    EXPECT_EQ(found.tokens, expected.tokens) << piece;
  }
}

#ifdef __SANITIZE_ADDRESS__
// Freed memory stays with the sanitizer for a while.
size_t memory_in_use() { return __sanitizer_get_current_allocated_bytes(); }
#else
size_t memory_in_use() {
  std::ifstream statm("/proc/self/statm");
  size_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}
#endif

// Copies between devices of one backend, with one damaged path, and between backends.
TEST_F(Survival, CopiesBetweenDevicesArrive) {
  constexpr size_t kBytes = (size_t{17} << 20) + 3;
  std::vector<unsigned char> sent(kBytes), arrived(kBytes);
  for (size_t i = 0; i < kBytes; ++i) sent[i] = static_cast<unsigned char>(i * 31 + i / 251);
  struct Case {
    const char *from, *to, *fault;
    bool direct;
    const char* reason;
  };
  for (const Case& c : {Case{"sim:1", "sim:0", "", true, ""}, Case{"sim:0", "sim:1", "peer:1", false, "the checksum"},
                        Case{"cpu", "sim:0", "", false, "cpu and sim:0 have no direct route"},
                        Case{"sim:0", "cpu", "", false, "sim:0 and cpu have no direct route"}}) {
    ::setenv("GABBRO_SIM_FAIL", c.fault, 1);
    const auto from = open_device(c.from), to = open_device(c.to);
    const std::shared_ptr<void> source = from->allocate(kBytes), target = to->allocate(kBytes);
    from->copy_to_device(source.get(), sent.data(), kBytes);
    to->copy_from(*from, target.get(), source.get(), kBytes);
    to->copy_to_host(arrived.data(), target.get(), kBytes);
    EXPECT_TRUE(arrived == sent) << c.from << " to " << c.to;
    EXPECT_EQ(to->route_from(*from).direct, c.direct) << c.from << " to " << c.to;
    EXPECT_THAT(to->route_from(*from).reason, HasSubstr(c.reason));
  }
  ::setenv("GABBRO_SIM_FAIL", "peer-error:8", 1);  // after four copies of the test and three that are timed
  const auto from = open_device("sim:1"), to = open_device("sim:0");
  const std::shared_ptr<void> source = from->allocate(8), target = to->allocate(8);
  try {
    to->copy_from(*from, target.get(), source.get(), 8);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "copying from sim:1 to sim:0: sim: injected failure of a copy between devices");
  }
}

// GABBRO_CYCLES says how many; 2000 take two minutes.
TEST_F(Survival, CyclesLeaveMemoryWhereItWas) {
  const char* asked = std::getenv("GABBRO_CYCLES");
  const int cycles = asked == nullptr ? 60 : std::atoi(asked), first = cycles / 3;  // the first ones fill caches
  size_t before = 0;
  for (int i = 0; i < cycles; ++i) {
    if (i == first) before = memory_in_use();
    ASSERT_EQ(generate(load()), expected_);
  }
  EXPECT_LE(memory_in_use(), before + (size_t{2} << 20));
  EXPECT_EQ(used_memory(), 0U);
}

}  // namespace
}  // namespace gabbro
