// Requests join, leave, are canceled and fail on a loop, and each gets the tokens that it gets alone.
#include "src/engine/scheduler.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <thread>

#include "src/engine/model_service.h"
#include "tests/llm/recorded_answer.h"
#include "tests/llm/tiny_model.h"

namespace gabbro {
namespace {

using Answer = test::RecordedAnswer;
using test::tiny_llama;
using test::TinyModel;

GenerationRequest request(int number, size_t length, int tokens) {
  GenerationRequest made;
  for (size_t i = 0; i < length; ++i)
    made.prompt.push_back(static_cast<int32_t>((i * 7 + static_cast<size_t>(number) * 31 + 3) % TinyModel::kV));
  made.options.max_tokens = tokens;
  made.options.ignore_end = true;
  made.options.sampler.temperature = 0;
  return made;
}

class Loops : public testing::TestWithParam<bool> {
 protected:
  Loops() : engine_(Engine::load(tiny_llama().write("scheduler"), {.threads = 2, .sequences = GetParam() ? 3 : 1})) {
    loop_ = std::make_unique<Scheduler>(engine_);
  }

  std::pair<Ticket, std::shared_ptr<Answer>> add(const GenerationRequest& wanted) {
    auto answer = std::make_shared<Answer>();
    return {loop_->add(wanted, answer), answer};
  }
  std::vector<int32_t> alone(const GenerationRequest& wanted) {
    Scheduler loop(engine_);
    return generate(loop, wanted, {}, nullptr).token_ids;
  }
  void run() {
    while (loop_->step()) {
    }
  }

  std::shared_ptr<Engine> engine_;
  std::unique_ptr<Scheduler> loop_;
};

TEST_P(Loops, RequestsJoinBetweenSteps) {
  std::mt19937 random(3);
  std::vector<std::pair<GenerationRequest, std::shared_ptr<Answer>>> all;
  for (int i = 0; i < 12; ++i) {
    const GenerationRequest wanted = request(i, 1 + random() % 100, 1 + static_cast<int>(random() % 12));
    all.emplace_back(wanted, add(wanted).second);
    for (size_t steps = random() % 5; steps > 0; --steps) loop_->step();
  }
  run();
  EXPECT_FALSE(loop_->step());
  for (const auto& [wanted, answer] : all) {
    ASSERT_TRUE(answer->result);
    EXPECT_EQ(answer->starts, 1);
    EXPECT_EQ(answer->result->token_ids, alone(wanted));
    EXPECT_EQ(answer->result->text, answer->text_so_far);
    EXPECT_EQ(answer->result->stop_reason, StopReason::kMaxTokens);
  }
}

TEST_P(Loops, OneIsCanceledAndTheOthersGoOn) {
  std::vector<GenerationRequest> wanted;
  std::vector<std::pair<Ticket, std::shared_ptr<Answer>>> all;
  for (int i = 0; i < 5; ++i) {
    wanted.push_back(request(i, 20, 10));
    all.push_back(add(wanted.back()));
  }
  loop_->step();
  loop_->cancel(all[4].first);  // it waits
  if (GetParam()) loop_->cancel(all[1].first);
  run();
  loop_->cancel(all[0].first);  // it has ended
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_TRUE(all[i].second->result) << i;
    const bool canceled = i == 4 || (GetParam() && i == 1);
    EXPECT_EQ(all[i].second->result->stop_reason == StopReason::kCanceled, canceled) << i;
    if (canceled) continue;
    EXPECT_EQ(all[i].second->result->token_ids, alone(wanted[i])) << i;
  }
  EXPECT_EQ(all[4].second->starts, 0);
}

// Canceled by another thread, in the middle of a step.
TEST_P(Loops, ARunningOneIsCanceled) {
  const GenerationRequest endless = request(1, 150, 100);
  const auto [ticket, answer] = add(endless);
  const auto [next_ticket, next] = add(request(2, 5, 3));
  std::thread other([&, canceled = ticket] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    loop_->cancel(canceled);
  });
  run();
  other.join();
  ASSERT_TRUE(answer->result && next->result);
  EXPECT_EQ(next->result->token_ids, alone(request(2, 5, 3)));
}

TEST_P(Loops, AllAreCanceledByTheFlag) {
  std::vector<std::shared_ptr<Answer>> all;
  for (int i = 0; i < 5; ++i) all.push_back(add(request(i, 20, 10)).second);
  const std::atomic<bool> cancel = true;
  while (loop_->step(&cancel)) {
  }
  for (const auto& answer : all) {
    ASSERT_TRUE(answer->result);
    EXPECT_EQ(answer->result->stop_reason, StopReason::kCanceled);
  }
}

TEST_P(Loops, AStepThatFailsEndsThoseOfTheStep) {
  const auto [first_ticket, first] = add(request(1, 20, 10));
  loop_->step();
  loop_->fail_running(Error(ErrorCode::kFailed, "a fault"));
  ASSERT_TRUE(first->error);
  EXPECT_STREQ(first->error->what(), "a fault");
  const auto [next_ticket, next] = add(request(2, 20, 4));
  run();
  ASSERT_TRUE(next->result);
  EXPECT_EQ(next->result->token_ids, alone(request(2, 20, 4)));
}

TEST_P(Loops, RequestsThatCannotBeAreRefusedAtOnce) {
  const auto answer = std::make_shared<Answer>();
  EXPECT_THROW(loop_->add({}, answer), Error);
  GenerationRequest wrong = request(1, 3, 3);
  wrong.options.sampler.top_p = 2;
  EXPECT_THROW(loop_->add(wrong, answer), Error);
  EXPECT_THROW(loop_->add(request(1, 100000, 3), answer), Error);
  EXPECT_FALSE(loop_->step());
  EXPECT_FALSE(answer->ended());
}

INSTANTIATE_TEST_SUITE_P(All, Loops, testing::Bool(),
                         [](const auto& i) { return std::string(i.param ? "Three" : "One"); });

}  // namespace
}  // namespace gabbro
