#include "backends/gpu/wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "backends/gpu/launch_names.h"

namespace gabbro::gpu {
namespace {

std::atomic<void (*)(const char*)> g_report{nullptr};

bool sleeps_at_once() {
  static const bool sleeps = [] {
    const char* const text = std::getenv("GABBRO_BLOCKING_SYNC");
    return text != nullptr && std::string_view(text) == "1";
  }();
  return sleeps;
}

}  // namespace

void set_reporter(void (*report)(const char* line)) { g_report = report; }

Waiter::Waiter(const std::atomic<bool>* cancel)
    : cancel_(cancel),
      spin_(sleeps_at_once() ? Clock::duration(0) : kSpin),
      start_(Clock::now()),
      next_report_(api::report_after()) {}

void Waiter::pause() {
  if (cancel_ != nullptr && *cancel_) throw ApiError(abi::StatusCode::kCanceled, "cancelled");
  elapsed_ = Clock::now() - start_;
  if (elapsed_ >= next_report_) report();
  if (!is_long()) return std::this_thread::yield();
  // At most 1.6 % of a long wait.
  constexpr Clock::duration kShortest = std::chrono::microseconds(50), kLongest = std::chrono::milliseconds(20);
  std::this_thread::sleep_for(std::clamp<Clock::duration>(elapsed_ / 64, kShortest, kLongest));
}

void Waiter::report() {
  next_report_ += api::report_after();
  const auto handler = g_report.load();
  if (handler == nullptr) return;
  std::array<const char*, 4> names;
  const int32_t count = last_launches(names.data(), static_cast<int32_t>(names.size()));
  std::string last;
  for (int32_t i = 0; i < count; ++i) last += (i > 0 ? ", " : "") + std::string(names[static_cast<size_t>(i)]);
  const std::string advice = api::wait_advice();
  handler(fmt::format("{}: no progress for {:.3g} s; enqueued last, the newest first: {}{}", api::backend_name(),
                      std::chrono::duration<double>(elapsed_).count(), last.empty() ? "nothing" : last,
                      advice.empty() ? "" : "; " + advice)
              .c_str());
}

namespace api {

void synchronize(Queue* queue) {
  Waiter waiter(nullptr);
  while (!is_done(queue)) waiter.pause();
}

void synchronize(Event* event) {
  Waiter waiter(nullptr);
  while (!is_done(event)) waiter.pause();
}

}  // namespace api
}  // namespace gabbro::gpu
