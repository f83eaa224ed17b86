#include "src/engine/sampling/penalties.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gabbro::sampling {

void History::accept(int32_t token) {
  tokens_.push_back(token);
  if (window_ == 0) return;
  ++counts_[token];
  if (window_ < 0 || tokens_.size() <= static_cast<size_t>(window_)) return;
  const auto leaving = counts_.find(tokens_[tokens_.size() - 1 - static_cast<size_t>(window_)]);
  if (--leaving->second == 0) counts_.erase(leaving);
}

void penalize_counts(std::span<float> logits, const History& history, const SamplerOptions& options) {
  for (const auto& [token, count] : history.counts()) {
    float& logit = logits[static_cast<size_t>(token)];
    logit = logit > 0 ? logit / options.repeat_penalty : logit * options.repeat_penalty;
    logit -= static_cast<float>(count) * options.frequency_penalty + options.presence_penalty;
  }
}

void penalize_repetition(std::span<float> logits, const History& history, const SequenceBreakers& breakers,
                         const SamplerOptions& options) {
  const auto tokens = history.tokens();
  const size_t n = tokens.size();
  const size_t reach = breakers.tokens_behind_last(tokens);
  if (n < 2 || reach < static_cast<size_t>(options.dry_allowed_length)) return;
  const auto reversed = [&](size_t i) { return tokens[n - 1 - i]; };

  // matched[i]: how many tokens before (and with) position i of the reversed text repeat the end of the text.
  std::vector<size_t> matched(n, 0);
  size_t left = 0, right = 0;  // the rightmost match found so far covers [left, right)
  for (size_t i = 1; i < n; ++i) {
    size_t length = i < right ? std::min(matched[i - left], right - i) : 0;
    while (i + length < n && reversed(length) == reversed(i + length)) ++length;
    matched[i] = length;
    if (i + length > right) {
      left = i;
      right = i + length;
    }
  }

  std::unordered_map<int32_t, size_t> longest;  // token that followed a match -> the longest such match
  for (size_t i = 1; i < n; ++i) {
    if (matched[i] < static_cast<size_t>(options.dry_allowed_length)) continue;
    size_t& length = longest[reversed(i - 1)];
    length = std::max(length, std::min(matched[i], reach));
  }
  for (const auto& [token, length] : longest) {
    if (breakers.is_breaker(token)) continue;
    const double exponent = static_cast<double>(length) - options.dry_allowed_length;
    const double penalty = options.dry_multiplier * std::pow(static_cast<double>(options.dry_base), exponent);
    // Bounded, so that a logit stays a number however long the repetition.
    logits[static_cast<size_t>(token)] -= static_cast<float>(std::min(penalty, 1e30));
  }
}

bool penalizes_counts(const SamplerOptions& o) {
  return o.penalty_window != 0 && (o.repeat_penalty != 1 || o.frequency_penalty != 0 || o.presence_penalty != 0);
}

namespace {

constexpr Penalty kPenalties[] = {
    {.is_on = penalizes_counts,
     .apply = [](std::span<float> logits, const History& history, const SequenceBreakers&,
                 const SamplerOptions& options) { penalize_counts(logits, history, options); },
     .on_device = true},
    {.is_on = [](const SamplerOptions& o) { return o.dry_multiplier > 0; }, .apply = penalize_repetition},
};

}  // namespace

std::span<const Penalty> penalties() { return kPenalties; }

}  // namespace gabbro::sampling
