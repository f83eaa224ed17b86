#include "tests/llm/random_schedule.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "tests/llm/recorded_answer.h"
#include "tests/llm/tiny_model.h"

namespace gabbro::test {

GenerationRequest greedy_request(std::vector<int32_t> prompt, int tokens) {
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

GenerationRequest ScheduleRequests::request(int number) const {
  std::vector<int32_t> prompt = prompt_of(number / 4, 1 + number * 37 * longest_ / 170 % longest_);
  if (number % 4 != 0) prompt.push_back(number);
  GenerationRequest request = greedy_request(std::move(prompt), 1 + number * 5 % 23);
  if (number % 3 == 1) {
    request.options.sampler.temperature = 0.8F;
    request.options.sampler.seed = static_cast<uint64_t>(number);
  }
  return request;
}

const std::vector<int32_t>& ScheduleRequests::alone(int number) {
  std::vector<int32_t>& tokens = alone_[static_cast<size_t>(number)];
  if (!tokens.empty()) return tokens;
  Scheduler scheduler(load_(), options_);
  const auto answer = std::make_shared<RecordedAnswer>();
  scheduler.add(request(number), answer);
  while (scheduler.step()) {
  }
  return tokens = answer->result.value().token_ids;
}

int64_t ScheduleRequests::steps(int number) const {
  const GenerationRequest one = request(number);
  return std::ssize(one.prompt) / std::max<int64_t>(options_.step_tokens, 1) + 1 + one.options.max_tokens;
}

int64_t run_schedule(GenerationLoop& loop, unsigned seed, ScheduleRequests& requests, int64_t* most_steps) {
  std::mt19937 random(seed);
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  struct Added {
    int number;
    Ticket ticket;
    std::shared_ptr<RecordedAnswer> answer;
    bool canceled = false;
  };
  std::vector<Added> all;
  int64_t made = 0, most = 0;
  const int count = 1 + draw(10);
  for (int i = 0; i < count; ++i) {
    const int number = draw(ScheduleRequests::kCount);
    GenerationRequest request = requests.request(number);
    request.priority = draw(4) == 0 ? draw(17) - 8 : 0;
    auto answer = std::make_shared<RecordedAnswer>();
    const Ticket ticket = loop.add(std::move(request), answer);
    all.push_back({number, ticket, answer});
    most += requests.steps(number);
    for (int steps = draw(3) == 0 ? draw(30) : draw(4); steps > 0; --steps) made += loop.step();
    if (draw(8) == 0) {
      Added& one = all[static_cast<size_t>(draw(static_cast<int>(all.size())))];
      one.canceled = true;
      loop.cancel(one.ticket);
    }
  }
  while (loop.step()) ++made;
  if (most_steps != nullptr) *most_steps = most;
  for (const Added& one : all) {
    const std::string where = "schedule " + std::to_string(seed) + ", request " + std::to_string(one.number);
    if (!one.answer->result) {
      ADD_FAILURE() << where << ": " << (one.answer->error ? one.answer->error->what() : "did not end");
      continue;
    }
    EXPECT_EQ(one.answer->starts, one.canceled ? one.answer->starts : 1) << where;
    if (one.answer->result->stop_reason == StopReason::kCanceled) {
      EXPECT_TRUE(one.canceled) << where;
    } else {
      EXPECT_EQ(one.answer->result->token_ids, requests.alone(one.number)) << where;
    }
  }
  return made;
}

int schedule_count(int usual) {
  const char* const wanted = std::getenv("GABBRO_SCHEDULES");
  return wanted != nullptr ? std::atoi(wanted) : usual;
}

}  // namespace gabbro::test
