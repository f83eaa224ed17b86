// Random orders of events on a loop of requests, in this process or in a worker: requests of different priorities join,
// are canceled and give their pages to others. With deterministic steps each gets the tokens that it gets alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/engine/generation_loop.h"
#include "src/engine/scheduler.h"

namespace gabbro::test {

// A greedy request for exactly `tokens` tokens.
GenerationRequest greedy_request(std::vector<int32_t> prompt, int tokens);
// Prompts with different numbers differ from their first token on.
std::vector<int32_t> prompt_of(int number, int64_t length);

// Requests with the numbers 0 to 23: each group of four begins with the same tokens, and every third is sampled.
class ScheduleRequests {
 public:
  static constexpr int kCount = 24;

  // `longest`: tokens of a prompt, at most. `load` returns a fresh engine, on which a request is computed alone.
  ScheduleRequests(int64_t longest, SchedulerOptions options, std::function<std::shared_ptr<Engine>()> load)
      : longest_(longest), options_(std::move(options)), load_(std::move(load)), alone_(kCount) {}

  GenerationRequest request(int number) const;
  // The tokens of the request alone on a fresh engine, to the bit.
  const std::vector<int32_t>& alone(int number);
  // Scheduler steps of the request alone, at most.
  int64_t steps(int number) const;

 private:
  int64_t longest_;
  SchedulerOptions options_;
  std::function<std::shared_ptr<Engine>()> load_;
  std::vector<std::vector<int32_t>> alone_;  // by number; empty: not computed yet
};

// Runs the schedule of a seed to its end, and fails the test if a request that was not canceled has other tokens than
// alone. Returns the calls of step() until the end; `most_steps`: the sum of the requests' steps.
int64_t run_schedule(GenerationLoop& loop, unsigned seed, ScheduleRequests& requests, int64_t* most_steps = nullptr);

// The number of schedules to run: $GABBRO_SCHEDULES, or `usual`. 10,000 take one to three minutes.
int schedule_count(int usual);

}  // namespace gabbro::test
