#include "src/engine/worker/step_watch.h"

#include <algorithm>
#include <thread>

namespace gabbro::worker {
namespace {

constexpr std::chrono::milliseconds kLookEvery{100};
constexpr int64_t kNoStep = 0;  // no step is made

int64_t steady_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

struct StepWatch::Shared {
  std::atomic<int64_t> deadline = kNoStep;  // nanoseconds of the steady clock
  std::atomic<int64_t> limit = 0;           // milliseconds
  std::atomic<bool> ends = false;
  std::function<void(std::chrono::milliseconds)> hangs;

  void run() {
    while (!ends) {
      std::this_thread::sleep_for(kLookEvery);
      const int64_t until = deadline;
      if (until != kNoStep && steady_nanoseconds() > until && !ends) return hangs(std::chrono::milliseconds(limit));
    }
  }
};

std::chrono::milliseconds step_limit(double forecast) {
  constexpr double kMost = 24 * 3600 * 1e3;
  const double limit = std::min(kForecastFactor * forecast * 1e3, kMost);
  return std::max(std::chrono::milliseconds(kShortestLimit), std::chrono::milliseconds(static_cast<int64_t>(limit)));
}

StepWatch::StepWatch(std::function<void(std::chrono::milliseconds)> hangs) : shared_(std::make_shared<Shared>()) {
  shared_->hangs = std::move(hangs);
  std::thread([shared = shared_] { shared->run(); }).detach();
}

StepWatch::~StepWatch() { shared_->ends = true; }

void StepWatch::begin(std::chrono::milliseconds limit) {
  shared_->limit = limit.count();
  shared_->deadline = steady_nanoseconds() + std::chrono::duration_cast<std::chrono::nanoseconds>(limit).count();
}

void StepWatch::end() { shared_->deadline = kNoStep; }

StepWatch::Pause::Pause(StepWatch& watch)
    : watch_(watch), deadline_(watch.shared_->deadline.exchange(kNoStep)), begin_(steady_nanoseconds()) {}

StepWatch::Pause::~Pause() {
  if (deadline_ != kNoStep) watch_.shared_->deadline = deadline_ + (steady_nanoseconds() - begin_);
}

}  // namespace gabbro::worker
