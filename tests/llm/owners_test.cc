// Shares of owners, the bound on preemptions, and requests that are paused.
#include <gtest/gtest.h>

#include <algorithm>

#include "src/engine/scheduler.h"
#include "tests/llm/recorded_answer.h"
#include "tests/llm/tiny_model.h"

namespace gabbro {
namespace {

class Owners : public testing::Test {
 protected:
  static constexpr int kPlaces = 2;

  static GenerationRequest of(const std::string& owner, int tokens, int number = 1) {
    GenerationRequest request{.owner = owner};
    for (int i = 0; i < 20; ++i) request.prompt.push_back((i * 7 + number * 31 + 3) % test::TinyModel::kV);
    request.options.max_tokens = tokens;
    request.options.ignore_end = true;
    request.options.sampler.temperature = 0;
    return request;
  }
  std::pair<Ticket, std::shared_ptr<test::RecordedAnswer>> add(const GenerationRequest& request) {
    auto answer = std::make_shared<test::RecordedAnswer>();
    return {loop_.add(request, answer), answer};
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) loop_.step();
  }
  void run() {
    while (loop_.step()) {
    }
  }

  std::shared_ptr<Engine> engine_ =
      Engine::load(test::tiny_llama().write("owners"), {.threads = 1, .sequences = kPlaces});
  Scheduler loop_{engine_};
};

TEST_F(Owners, OneWithManyRequestsLeavesOthersTheirShare) {
  std::vector<std::shared_ptr<test::RecordedAnswer>> many;
  for (int i = 0; i < 30; ++i) many.push_back(add(of("many", 12, i)).second);
  steps(5);
  // It takes a place at once, though both are taken, and its next requests come before the waiting ones.
  for (int i = 0; i < 3; ++i) {
    const auto single = add(of("single", 12, 100 + i)).second;
    int waited = 0;
    for (; !single->ended(); ++waited) {
      loop_.step();
      ASSERT_LT(waited, 60);
    }
    EXPECT_GT(single->starts, 0);
  }
  const auto done = std::ranges::count_if(many, [](const auto& answer) { return answer->ended(); });
  EXPECT_GT(done, 0);  // and it does not hold them up
  EXPECT_LT(done, 15);
  run();
  Scheduler alone(engine_);
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(many[static_cast<size_t>(i)]->result);
    EXPECT_EQ(many[static_cast<size_t>(i)]->result->token_ids, generate(alone, of("", 12, i), {}, nullptr).token_ids);
  }
}

TEST_F(Owners, TokensCountAndNotRequests) {
  // One generates eight times as many tokens a request.
  std::vector<std::shared_ptr<test::RecordedAnswer>> large, small;
  for (int i = 0; i < 20; ++i) {
    large.push_back(add(of("large", 100, i)).second);
    small.push_back(add(of("small", 5, 50 + i)).second);
  }
  const auto ended = [](const auto& answers) {
    return std::ranges::count_if(answers, [](const auto& answer) { return answer->ended(); });
  };
  while (ended(small) < 20) ASSERT_TRUE(loop_.step());
  EXPECT_LE(ended(large), 6);
  run();
}

TEST_F(Owners, APriorityIsAmongRequestsOfOneOwner) {
  GenerationRequest urgent = of("loud", 12, 5);
  urgent.priority = kHighestPriority;
  const auto a = add(of("quiet", 40, 1)).second, b = add(of("quiet", 40, 2)).second;
  steps(3);
  const auto c = add(of("quiet", 2, 3)).second, d = add(urgent).second, e = add(urgent).second;
  for (int i = 0; i < 100 && !c->ended(); ++i) loop_.step();
  EXPECT_TRUE(c->ended());
  EXPECT_TRUE(!a->ended() || !b->ended());
  run();
  EXPECT_TRUE(d->result && e->result);
}

TEST_F(Owners, ARequestGivesWayTwiceAtMost) {
  GenerationRequest low = of("one", 60, 1);
  low.priority = kLowestPriority;
  const auto first = add(low).second, second = add(low).second;
  steps(2);
  for (int i = 0; i < 12; ++i) {
    add(of("one", 3, 10 + i));
    steps(6);
  }
  // The urgent ones still come, and those that gave way twice each run through.
  int urgent = 0;
  while (!first->ended() || !second->ended()) {
    if (loop_.waiting() < 2) add(of("one", 3, 200 + urgent++));
    loop_.step();
    ASSERT_LT(urgent, 100);
  }
  run();
  EXPECT_TRUE(first->result && second->result);
}

TEST_F(Owners, APausedRequestDelaysNoOthers) {
  const auto [ticket, paused] = add(of("a", 30, 1));
  const auto [other_ticket, other] = add(of("a", 30, 2));
  steps(4);
  loop_.pause(ticket, true);
  loop_.pause(other_ticket, true);
  steps(1);
  const std::string before = paused->text_so_far;
  const auto next = add(of("a", 5, 3)).second;
  for (int i = 0; i < 20 && !next->ended(); ++i) loop_.step();
  EXPECT_TRUE(next->ended());
  EXPECT_TRUE(loop_.step());  // they are not over
  EXPECT_EQ(paused->text_so_far, before);
  loop_.pause(ticket, false);
  while (!paused->ended()) ASSERT_TRUE(loop_.step());
  EXPECT_FALSE(other->ended());
  Scheduler alone(engine_);
  EXPECT_EQ(paused->result->token_ids, generate(alone, of("", 30, 1), {}, nullptr).token_ids);
  loop_.cancel(other_ticket);
  run();
  EXPECT_EQ(other->result.value().stop_reason, StopReason::kCanceled);
  loop_.pause(other_ticket, true);  // it has ended
  run();
}

TEST_F(Owners, OneThatWaitsCanBePaused) {
  add(of("a", 10, 1));
  add(of("a", 10, 2));
  steps(2);
  const auto [ticket, waiting] = add(of("a", 3, 3));
  loop_.pause(ticket, true);
  steps(40);
  EXPECT_EQ(waiting->starts, 0);
  EXPECT_TRUE(loop_.step());
  loop_.pause(ticket, false);
  run();
  EXPECT_TRUE(waiting->result);
}

TEST_F(Owners, StepsAreForecast) {
  EXPECT_LT(loop_.step_forecast(), 1);
  add(of("a", 3, 1));
  run();
  EXPECT_GT(loop_.step_forecast(), 0);
  EXPECT_LT(loop_.step_forecast(), 1);
}

TEST(FairShares, ALaterOwnerBeginsWithTheFewest) {
  FairShares shares;
  shares.came("a");
  shares.came("a");
  shares.had("a", 100);
  shares.came("b");
  EXPECT_EQ(shares.tokens("b"), 100);
  shares.had("b", 50);
  shares.came("c");
  EXPECT_EQ(shares.tokens("c"), 100);
  shares.ended("a");
  EXPECT_EQ(shares.owners(), 3U);
  shares.ended("a");
  EXPECT_EQ(shares.owners(), 2U);
  EXPECT_EQ(shares.tokens("a"), 0);
  shares.ended("a");  // it is not there
  EXPECT_EQ(shares.owners(), 2U);
}

}  // namespace
}  // namespace gabbro
