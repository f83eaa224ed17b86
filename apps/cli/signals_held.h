// Holds back SIGINT and SIGTERM of this thread while a file or a folder is half written.
#pragma once

#include <csignal>

namespace gabbro::cli {

class SignalsHeld {
 public:
  SignalsHeld() {
    sigemptyset(&held_);
    sigaddset(&held_, SIGINT);
    sigaddset(&held_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &held_, &before_);
  }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

  const sigset_t& before() const { return before_; }

 private:
  sigset_t held_, before_;
};

}  // namespace gabbro::cli
