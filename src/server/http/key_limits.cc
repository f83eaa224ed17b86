#include "src/server/http/key_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gabbro::server {
namespace {

constexpr double kMinute = 60;

// Until `used` is below the limit by `wanted`.
std::chrono::seconds wait_for(double used, int64_t limit, double wanted) {
  const double seconds = (used + wanted - static_cast<double>(limit)) / static_cast<double>(limit) * kMinute;
  return std::chrono::seconds(std::max<int64_t>(1, static_cast<int64_t>(std::ceil(seconds))));
}

}  // namespace

void KeyUse::Level::fall(int64_t limit, Clock::time_point now) {
  const double seconds = std::chrono::duration<double>(now - at).count();
  used = std::max(0.0, used - seconds * static_cast<double>(limit) / kMinute);
  at = now;
}

std::optional<KeyUse::Refusal> KeyUse::begin(const std::string& key, const KeyLimits& limits, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  Use& use = uses_[key];
  use.limits = limits;
  if (limits.concurrent > 0 && use.running >= limits.concurrent)
    return Refusal{fmt::format("the key may have {} requests at once", limits.concurrent), std::chrono::seconds(1)};
  if (limits.tokens > 0) {
    use.tokens.fall(limits.tokens, now);
    if (use.tokens.used >= static_cast<double>(limits.tokens))
      return Refusal{fmt::format("the key may use {} tokens a minute", limits.tokens),
                     wait_for(use.tokens.used, limits.tokens, 1)};
  }
  if (limits.requests > 0) {
    use.requests.fall(limits.requests, now);
    if (use.requests.used + 1 > static_cast<double>(limits.requests))
      return Refusal{fmt::format("the key may send {} requests a minute", limits.requests),
                     wait_for(use.requests.used, limits.requests, 1)};
    use.requests.used += 1;
  }
  ++use.running;
  return std::nullopt;
}

void KeyUse::end(const std::string& key) {
  const std::lock_guard lock(mutex_);
  if (const auto use = uses_.find(key); use != uses_.end()) --use->second.running;
}

void KeyUse::count_tokens(const std::string& key, int64_t tokens, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  const auto use = uses_.find(key);
  if (use == uses_.end() || use->second.limits.tokens == 0) return;
  use->second.tokens.fall(use->second.limits.tokens, now);
  use->second.tokens.used += static_cast<double>(tokens);
}

}  // namespace gabbro::server
