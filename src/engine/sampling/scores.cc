#include "src/engine/sampling/scores.h"

#include <algorithm>
#include <cmath>

#include "src/engine/sampling/candidates.h"

namespace gabbro::sampling {

TokenScore score_of(std::span<const float> logits, int32_t token, size_t top) {
  float largest = -HUGE_VALF;
  for (const float logit : logits) {
    if (logit > largest) largest = logit;
  }
  double sum = 0;
  for (const float logit : logits) {
    if (!std::isnan(logit)) sum += std::exp(static_cast<double>(logit) - static_cast<double>(largest));
  }
  const double log_sum = static_cast<double>(largest) + std::log(sum);
  const auto logprob = [&](float logit) {
    return std::isnan(logit) ? -HUGE_VALF : static_cast<float>(static_cast<double>(logit) - log_sum);
  };
  TokenScore score{.token = token, .logprob = logprob(logits[static_cast<size_t>(token)])};
  if (top == 0) return score;
  Candidates candidates;
  candidates.assign_top(logits, static_cast<int64_t>(top));
  candidates.sort_prefix(std::min(top, candidates.items.size()));
  candidates.keep_first(std::min(top, candidates.items.size()));
  for (const Candidate& one : candidates.items) score.top.emplace_back(one.id, logprob(one.logit));
  return score;
}

}  // namespace gabbro::sampling
