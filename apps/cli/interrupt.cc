#include "apps/cli/interrupt.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include "src/base/error.h"

namespace gabbro::cli {
namespace {

// A signal handler can reach nothing but globals; these two are it.
std::atomic<bool> g_canceled{false};
std::atomic<bool> g_cancelable{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_interrupt(int) {
  if (!g_cancelable || g_canceled) _exit(static_cast<int>(ErrorCode::kInterrupted));
  g_canceled = true;
}

}  // namespace

void install_interrupt_handler() {
  struct sigaction action = {};
  // Ignored by who started us (nohup, background jobs of a script): it stays so.
  if (sigaction(SIGINT, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) return;
  action = {};
  action.sa_handler = on_interrupt;  // no SA_RESTART: a read that waits for the user returns
  sigaction(SIGINT, &action, nullptr);
}

Cancelable::Cancelable() {
  g_canceled = false;
  g_cancelable = true;
}

Cancelable::~Cancelable() { g_cancelable = false; }

const std::atomic<bool>* Cancelable::flag() const { return &g_canceled; }
bool Cancelable::canceled() const { return g_canceled; }

void exit_interrupted() {
  std::fflush(nullptr);
  ::_exit(static_cast<int>(ErrorCode::kInterrupted));
}

bool wait_for_input(int descriptor) {
  // Between the look at the flag and the wait no signal may slip through: it is held back until poll waits.
  sigset_t interrupt, before;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupt, &before);
  bool ready = false;
  while (!ready && !g_canceled) {
    pollfd input = {.fd = descriptor, .events = POLLIN, .revents = 0};
    ready = ppoll(&input, 1, nullptr, &before) != -1 || errno != EINTR;  // what else is wrong, read() will say
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return ready;
}

}  // namespace gabbro::cli
