#include "apps/cli/interrupt.h"

#include <unistd.h>

#include <csignal>

#include "src/base/error.h"

namespace gabbro::cli {
namespace {

// A signal handler can reach nothing but globals; these two are it.
std::atomic<bool> g_cancelled{false};
std::atomic<bool> g_cancellable{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_interrupt(int) {
  if (!g_cancellable || g_cancelled) _exit(static_cast<int>(ErrorCode::kInterrupted));
  g_cancelled = true;
}

}  // namespace

void install_interrupt_handler() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;  // no SA_RESTART: a read that waits for the user returns
  sigaction(SIGINT, &action, nullptr);
}

Cancellable::Cancellable() {
  g_cancelled = false;
  g_cancellable = true;
}

Cancellable::~Cancellable() { g_cancellable = false; }

const std::atomic<bool>* Cancellable::flag() const { return &g_cancelled; }
bool Cancellable::cancelled() const { return g_cancelled; }

}  // namespace gabbro::cli
