// One measurement of `bench serve`: requests of a load, in a closed or an open loop, and what they took.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "apps/cli/serve_client.h"
#include "apps/cli/serve_load.h"

namespace gabbro::cli {

// Closed: `streams` requests at a time, each followed by the next. Open: requests come at `rate` a second on average,
// whether others are answered or not.
struct LoopPoint {
  int streams = 0;  // 0: open
  double rate = 0;  // requests per second
};

struct MeasureOptions {
  double seconds = 30;   // how long a load sends requests
  int64_t requests = 0;  // at most; 0: no bound
  int warmup = 0;        // requests before, which are not counted
  uint64_t seed = 1;
  ChatRequest request{};  // prompt and answer_tokens are set by the load
};

struct Measured {
  LoopPoint point;
  double seconds;      // from the first request on: `MeasureOptions::seconds`, or less where all requests ended earlier
  double cpu_seconds;  // of this program: one that is busy measures itself
  BenchClock::time_point start;
  std::vector<ChatTimes> requests;
};

// `number` tells measurements of one run apart: their prompts differ. Throws kInterrupted, and failed() where no
// request was answered.
Measured measure_serving(const ServerAddress& server, const Load& load, const LoopPoint& point, uint64_t number,
                         const MeasureOptions& options, const std::atomic<bool>& stop);

struct ServeGoals {
  double ttft_ms = 500, tpot_ms = 50;
};

// Figures of one measurement, as docs/guides/server.md defines them; `detail` adds a row for each request.
nlohmann::ordered_json measured_json(const Measured& measured, const ServeGoals& goals, bool detail);

// With linear interpolation, as numpy's default; `sorted` is not empty.
double percentile(const std::vector<double>& sorted, double percent);

// Tokens in each of `count` equal parts of the measurement, per second.
std::vector<double> tokens_over_time(const Measured& measured, int count);

// Sorted, in ms: from sending to the first piece; between pieces; per token after the first.
std::vector<double> first_token_times(const Measured& measured);
std::vector<double> piece_gaps(const Measured& measured);
std::vector<double> times_per_token(const Measured& measured);

}  // namespace gabbro::cli
