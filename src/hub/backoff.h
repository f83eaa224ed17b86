// Waiting times between attempts of a request.
#pragma once

#include <atomic>

#include "src/hub/http.h"

namespace gabbro::hub {

class Backoff {
 public:
  explicit Backoff(int retries) : retries_(retries) {}

  // Waits before the next attempt: 0.5 s, then twice as long each time, at most 30 s, or as long as the server asks
  // for (at most 5 minutes). Throws the error where another attempt makes no sense or none is left, and kInterrupted
  // when `stop` becomes true.
  void wait(const HttpError& error, const std::atomic<bool>& stop);
  // Data arrived: the attempts count from the beginning.
  void reset() { attempt_ = 0; }

 private:
  int retries_;
  int attempt_ = 0;
};

}  // namespace gabbro::hub
