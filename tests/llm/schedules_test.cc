// Orders of events on a scheduler: requests of different priorities join, leave, fail and give their pages to others,
// at random. In deterministic mode each gets, to the bit, the tokens that it gets alone on a fresh engine.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>

#include "src/engine/scheduler.h"
#include "tests/llm/recorded_answer.h"
#include "tests/llm/tiny_model.h"

namespace gabbro {
namespace {

using test::tiny_llama;
using test::TinyModel;

GenerationRequest request_of(std::vector<int32_t> prompt, int tokens) {
  GenerationRequest request{.prompt = std::move(prompt)};
  request.options.max_tokens = tokens;
  request.options.ignore_end = true;
  request.options.sampler.temperature = 0;
  return request;
}

std::vector<int32_t> prompt_of(int number, int64_t length) {
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < length; ++i)
    prompt.push_back(static_cast<int32_t>((i * 7 + number * 31 + 3) % TinyModel::kV));
  return prompt;
}

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

// GABBRO_SCHEDULES: how many; 10,000 take a few minutes.
TEST_F(Schedules, AtRandomEachRequestGetsTheTokensThatItGetsAlone) {
  const char* const wanted = std::getenv("GABBRO_SCHEDULES");
  const int count = wanted != nullptr ? std::atoi(wanted) : 150;
  std::map<int, std::vector<int32_t>> expected;  // of the requests below, by their number
  constexpr int kKinds = 24;
  const auto request_number = [](int number) {
    // Prompts of a family of four begin with the same two pages.
    std::vector<int32_t> prompt = prompt_of(number / 4, 1 + number * 37 % 170);
    if (number % 4 != 0) prompt.push_back(number);
    GenerationRequest request = request_of(std::move(prompt), 1 + number * 5 % 23);
    if (number % 3 == 1) {
      request.options.sampler.temperature = 0.8F;
      request.options.sampler.seed = static_cast<uint64_t>(number);
    }
    return request;
  };
  const auto engine = load();
  const int64_t pages = kSequences * TinyModel::kContext / 64;
  for (int schedule = 0; schedule < count; ++schedule) {
    std::mt19937 random(static_cast<unsigned>(schedule));
    const auto draw = [&](unsigned below) { return static_cast<int>(random() % below); };
    struct Added {
      int number;
      Ticket ticket;
      std::shared_ptr<test::RecordedAnswer> answer;
      bool canceled = false;
    };
    std::vector<Added> all;
    {
      Scheduler scheduler(engine, exact());
      const int requests = 1 + draw(10);
      for (int i = 0; i < requests; ++i) {
        const int number = draw(kKinds);
        GenerationRequest request = request_number(number);
        request.priority = draw(4) == 0 ? draw(17) - 8 : 0;
        auto answer = std::make_shared<test::RecordedAnswer>();
        const Ticket ticket = scheduler.add(std::move(request), answer);
        all.push_back({number, ticket, answer});
        for (int steps = draw(3) == 0 ? draw(30) : draw(4); steps > 0; --steps) scheduler.step();
        if (draw(8) == 0) {
          Added& one = all[static_cast<size_t>(draw(static_cast<unsigned>(all.size())))];
          one.canceled = true;
          scheduler.cancel(one.ticket);
        }
      }
      run(scheduler);
    }
    for (const Added& one : all) {
      ASSERT_TRUE(one.answer->result) << schedule;
      const bool canceled = one.answer->result->stop_reason == StopReason::kCanceled;
      ASSERT_LE(canceled, one.canceled) << schedule;
      if (canceled) continue;
      ASSERT_EQ(one.answer->starts, 1);
      if (!expected.contains(one.number)) expected[one.number] = alone(request_number(one.number));
      ASSERT_EQ(one.answer->result->token_ids, expected[one.number]) << "schedule " << schedule << ", " << one.number;
    }
    // All pages are free again.
    ASSERT_TRUE(Runner(engine).has_pages((pages - 1) * 64, 0)) << schedule;
  }
}

TEST_F(Schedules, OneOfEightFails) {
  Scheduler scheduler(load(), exact());
  std::vector<GenerationRequest> requests;
  std::vector<std::shared_ptr<test::RecordedAnswer>> answers;
  for (int i = 0; i < 8; ++i) {
    requests.push_back(request_of(prompt_of(i, 20), 6));
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
    GenerationRequest request = request_of(prompt_of(i, 20), 6);
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
  for (int i = 0; i < 2; ++i) answers.push_back(add(scheduler, request_of(prompt_of(i, 5), 3)));
  const auto refused = std::make_shared<test::RecordedAnswer>();
  EXPECT_THROW(scheduler.add(request_of(prompt_of(3, 5), 3), refused), QueueFull);
  scheduler.step();  // they begin
  answers.push_back(add(scheduler, request_of(prompt_of(4, 5), 3)));
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
    low.push_back(request_of(prompt_of(i, 70), 40));
    answers.push_back(add(scheduler, low.back()));
  }
  for (int i = 0; i < 12; ++i) scheduler.step();
  GenerationRequest high = request_of(prompt_of(9, 10), 4);
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
  GenerationRequest low = request_of(prompt_of(1, 10), 4);
  low.priority = kLowestPriority;
  for (int i = 0; i < kSequences; ++i) add(scheduler, request_of(prompt_of(2, 10), 3));
  scheduler.step();
  const auto answer = add(scheduler, low);
  int64_t steps = 0;
  GenerationRequest high = request_of(prompt_of(3, 4), 2);
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
  const auto long_one = add(scheduler, request_of(prompt_of(1, 250), 2));
  scheduler.step();
  const auto short_one = add(scheduler, request_of(prompt_of(2, 10), 1));
  scheduler.step();
  scheduler.step();
  EXPECT_TRUE(short_one->ended());
  EXPECT_FALSE(long_one->ended());
  run(scheduler);
}

}  // namespace
}  // namespace gabbro
