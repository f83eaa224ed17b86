#include "src/engine/sampling/mirostat.h"

#include <algorithm>
#include <cmath>

namespace gabbro::sampling {

// Section 4 of the paper: s from the ratios of the most likely probabilities, then k from s and mu.
size_t Mirostat::zipf_count(Candidates& candidates) const {
  constexpr size_t kEstimateFrom = 100;  // the paper's m
  auto& items = candidates.items;
  const size_t used = std::min(kEstimateFrom, items.size());
  candidates.sort_prefix(used);
  double sum_tb = 0, sum_tt = 0;
  for (size_t i = 0; i + 1 < used; ++i) {
    const double t = std::log(double(i + 2) / double(i + 1));
    const double b = double(items[i].logit) - double(items[i + 1].logit);  // log of the ratio of probabilities
    sum_tb += t * b;
    sum_tt += t * t;
  }
  if (sum_tt == 0) return 1;
  const double s = sum_tb / sum_tt;
  const double epsilon = s - 1;
  const double k = std::pow(epsilon * std::exp2(double(mu_)) / (1 - std::pow(double(vocabulary_), -epsilon)), 1 / s);
  if (!(k < double(items.size()))) return items.size();  // also where the estimate is not a number
  return static_cast<size_t>(std::max(1.0, k));
}

void Mirostat::truncate(Candidates& candidates) const {
  if (version_ == 1) {
    const size_t count = zipf_count(candidates);
    candidates.sort_prefix(count);
    candidates.keep_first(count);
    candidates.sorted = true;
  } else {
    candidates.softmax();
    candidates.sort_prefix(1);
    const Candidate first = candidates.items.front();
    const float least = std::exp2(-mu_);
    std::erase_if(candidates.items, [&](const Candidate& c) { return c.probability < least; });
    if (candidates.items.empty()) candidates.items.push_back(first);
  }
  candidates.softmax();
}

void Mirostat::observe(float probability) {
  const float surprise = -std::log2(std::max(probability, 1e-30f));
  mu_ -= eta_ * (surprise - tau_);
}

}  // namespace gabbro::sampling
