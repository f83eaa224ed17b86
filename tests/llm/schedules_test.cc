// Orders of events on a scheduler: requests of different priorities join, leave, fail and give their pages to others,
// at random. In deterministic mode each gets, to the bit, the tokens that it gets alone on a fresh engine.
#include <gtest/gtest.h>

#include <memory>

#include "src/engine/scheduler.h"
#include "tests/llm/random_schedule.h"
#include "tests/llm/recorded_answer.h"
#include "tests/llm/tiny_model.h"

namespace gabbro {
namespace {

using test::greedy_request;
using test::prompt_of;
using test::tiny_llama;
using test::TinyModel;

class Schedules : public testing::Test {
 protected:
  static constexpr int kSequences = 3;
  static constexpr int64_t kChunk = 64;
  static std::shared_ptr<Engine> load() {
    return Engine::load(tiny_llama().write("schedules"), {.threads = 1, .sequences = kSequences});
  }
  static SchedulerOptions exact() { return {.step_tokens = kChunk, .deterministic = true}; }

  static std::shared_ptr<test::RecordedAnswer> add(Scheduler& scheduler, const GenerationRequest& request) {
    auto answer = std::make_shared<test::RecordedAnswer>();
    scheduler.add(request, answer);
    return answer;
  }
  static void run(Scheduler& scheduler) {
    while (scheduler.step()) {
    }
  }
  static std::vector<int32_t> alone(const GenerationRequest& request) {
    Scheduler scheduler(load(), exact());
    const auto answer = add(scheduler, request);
    run(scheduler);
    return answer->result.value().token_ids;
  }
};

TEST_F(Schedules, AtRandomEachRequestGetsTheTokensThatItGetsAlone) {
  test::ScheduleRequests requests(170, exact(), load);
  const auto engine = load();
  const int64_t pages = kSequences * TinyModel::kContext / 64;
  const int count = test::schedule_count(150);
  for (int seed = 0; seed < count && !HasFailure(); ++seed) {
    {
      Scheduler scheduler(engine, exact());
      int64_t most_steps = 0;
      const int64_t steps = test::run_schedule(scheduler, static_cast<unsigned>(seed), requests, &most_steps);
      // No request waits longer: a preempted one is computed again, at most twice.
      EXPECT_LE(steps, 3 * most_steps) << "schedule " << seed;
    }
    // All pages are free again.
    EXPECT_NO_THROW(Runner(engine).reserve_pages(pages * 64)) << "schedule " << seed;
  }
}

TEST_F(Schedules, OneOfEightFails) {
  Scheduler scheduler(load(), exact());
  std::vector<GenerationRequest> requests;
  std::vector<std::shared_ptr<test::RecordedAnswer>> answers;
  for (int i = 0; i < 8; ++i) {
    requests.push_back(greedy_request(prompt_of(i, 20), 6));
    if (i == 2) requests.back().prompt[5] = TinyModel::kV + 7;  // the step that takes it throws
    answers.push_back(add(scheduler, requests.back()));
  }
  run(scheduler);
  for (size_t i = 0; i < answers.size(); ++i) {
    if (i == 2) {
      ASSERT_TRUE(answers[i]->error);
      EXPECT_STREQ(answers[i]->error->what(), "token 307 is outside the vocabulary of 300 tokens");
    } else {
      ASSERT_TRUE(answers[i]->result) << i;
      EXPECT_EQ(answers[i]->result->token_ids, alone(requests[i])) << i;
    }
  }
}

// As above, with requests that are computed together.
TEST_F(Schedules, OneOfAStepFails) {
  Scheduler scheduler(load());
  std::vector<std::shared_ptr<test::RecordedAnswer>> answers;
  for (int i = 0; i < 3; ++i) {
    GenerationRequest request = greedy_request(prompt_of(i, 20), 6);
    if (i == 1) request.prompt[5] = TinyModel::kV + 7;
    answers.push_back(add(scheduler, request));
  }
  run(scheduler);
  EXPECT_TRUE(answers[0]->result && answers[2]->result);
  EXPECT_TRUE(answers[1]->error);
}

TEST_F(Schedules, AQueueIsBounded) {
  SchedulerOptions options = exact();
  options.most_waiting = 2;
  Scheduler scheduler(load(), options);
  std::vector<std::shared_ptr<test::RecordedAnswer>> answers;
  for (int i = 0; i < 2; ++i) answers.push_back(add(scheduler, greedy_request(prompt_of(i, 5), 3)));
  const auto refused = std::make_shared<test::RecordedAnswer>();
  EXPECT_THROW(scheduler.add(greedy_request(prompt_of(3, 5), 3), refused), QueueFull);
  scheduler.step();  // they begin
  answers.push_back(add(scheduler, greedy_request(prompt_of(4, 5), 3)));
  run(scheduler);
  for (const auto& answer : answers) EXPECT_TRUE(answer->result);
  EXPECT_FALSE(refused->ended());
}

// A request of a higher priority takes the place of one with a lower, which goes on where it stopped.
TEST_F(Schedules, AHigherPriorityGoesFirst) {
  Scheduler scheduler(load(), exact());
  std::vector<GenerationRequest> low;
  std::vector<std::shared_ptr<test::RecordedAnswer>> answers;
  for (int i = 0; i < 5; ++i) {
    low.push_back(greedy_request(prompt_of(i, 70), 40));
    answers.push_back(add(scheduler, low.back()));
  }
  for (int i = 0; i < 12; ++i) scheduler.step();
  GenerationRequest high = greedy_request(prompt_of(9, 10), 4);
  high.priority = 3;
  const auto first = add(scheduler, high);
  for (int i = 0; i < 20 && !first->ended(); ++i) scheduler.step();
  ASSERT_TRUE(first->result);
  for (const auto& answer : answers) EXPECT_FALSE(answer->ended());
  run(scheduler);
  for (size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i]->result.value().token_ids, alone(low[i])) << i;
  GenerationRequest wrong = high;
  wrong.priority = 9;
  EXPECT_THROW(scheduler.add(wrong, first), Error);
}

// However many requests of the highest priority come, one of the lowest begins in its time.
TEST_F(Schedules, NoRequestStarves) {
  Scheduler scheduler(load(), exact());
  GenerationRequest low = greedy_request(prompt_of(1, 10), 4);
  low.priority = kLowestPriority;
  for (int i = 0; i < kSequences; ++i) add(scheduler, greedy_request(prompt_of(2, 10), 3));
  scheduler.step();
  const auto answer = add(scheduler, low);
  int64_t steps = 0;
  GenerationRequest high = greedy_request(prompt_of(3, 4), 2);
  high.priority = kHighestPriority;
  for (; answer->starts == 0; ++steps) {
    while (scheduler.waiting() < 3) add(scheduler, high);
    scheduler.step();
    ASSERT_LE(steps, kMostOvertakenSteps + 20);
  }
  EXPECT_GT(steps, 100);
  run(scheduler);
  EXPECT_EQ(answer->result.value().token_ids, alone(low));
}

// A short prompt waits for one chunk of a long one at most.
TEST_F(Schedules, AShortPromptDoesNotWaitForALongOne) {
  const auto engine = load();
  Scheduler scheduler(engine, {.step_tokens = 64});
  const auto long_one = add(scheduler, greedy_request(prompt_of(1, 250), 2));
  scheduler.step();
  const auto short_one = add(scheduler, greedy_request(prompt_of(2, 10), 1));
  scheduler.step();
  scheduler.step();
  EXPECT_TRUE(short_one->ended());
  EXPECT_FALSE(long_one->ended());
  run(scheduler);
}

}  // namespace
}  // namespace gabbro
