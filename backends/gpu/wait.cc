#include "backends/gpu/wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <thread>

#include "backends/gpu/launch_names.h"

namespace gabbro::gpu {
namespace {

std::atomic<void (*)(const char*)> g_report{nullptr};

}  // namespace

void set_reporter(void (*report)(const char* line)) { g_report = report; }

Waiter::Waiter(const std::atomic<bool>* cancel)
    : cancel_(cancel), start_(Clock::now()), next_report_(api::report_after()) {}

void Waiter::pause() {
  if (cancel_ != nullptr && *cancel_) throw ApiError(abi::StatusCode::kCanceled, "cancelled");
  elapsed_ = Clock::now() - start_;
  if (elapsed_ >= next_report_) report();
  if (!is_long()) return std::this_thread::yield();
  // At most 1.6 % of a wait.
  std::this_thread::sleep_for(std::min<Clock::duration>(elapsed_ / 64, std::chrono::milliseconds(20)));
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
