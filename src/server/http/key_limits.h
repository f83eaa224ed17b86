// The limits of API keys in use: requests and tokens a minute, and requests at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace gabbro::server {

// 0: no limit.
struct KeyLimits {
  int64_t requests = 0;    // a minute
  int64_t tokens = 0;      // a minute, of computed prompts and of answers
  int64_t concurrent = 0;  // requests at once

  bool operator==(const KeyLimits&) const = default;
};

// Called by any thread.
class KeyUse {
 public:
  using Clock = std::chrono::steady_clock;

  // Takes a place for a request. Else the reason, and the time after which another one may succeed.
  struct Refusal {
    std::string message;
    std::chrono::seconds retry_after;
  };
  std::optional<Refusal> begin(const std::string& key, const KeyLimits& limits, Clock::time_point now = Clock::now());
  void end(const std::string& key);
  void count_tokens(const std::string& key, int64_t tokens, Clock::time_point now = Clock::now());

 private:
  // Falls to 0 within a minute, from the limit.
  struct Level {
    double used = 0;
    Clock::time_point at{};

    void fall(int64_t limit, Clock::time_point now);
  };
  struct Use {
    KeyLimits limits;
    Level requests, tokens;
    int64_t running = 0;
  };

  std::mutex mutex_;
  std::map<std::string, Use> uses_;
};

}  // namespace gabbro::server
