#include "src/engine/sampling/truncation.h"

#include <algorithm>
#include <cmath>

namespace gabbro::sampling {

void typical(Candidates& candidates, float p) {
  auto& items = candidates.items;
  candidates.softmax();
  double entropy = 0;
  for (const Candidate& c : items) {
    if (c.probability > 0) entropy -= double(c.probability) * std::log(double(c.probability));
  }
  struct Scored {
    double distance;  // |surprise - entropy|
    Candidate candidate;
  };
  std::vector<Scored> scored;
  scored.reserve(items.size());
  for (const Candidate& c : items) {
    if (c.probability > 0) scored.push_back({std::abs(-std::log(double(c.probability)) - entropy), c});
  }
  std::sort(scored.begin(), scored.end(), [](const Scored& a, const Scored& b) {
    return a.distance != b.distance ? a.distance < b.distance : a.candidate.id < b.candidate.id;
  });
  items.clear();
  double sum = 0;
  for (const Scored& s : scored) {
    items.push_back(s.candidate);
    sum += s.candidate.probability;
    if (sum > p) break;
  }
  candidates.sorted = false;
}

void top_p(Candidates& candidates, float p) {
  auto& items = candidates.items;
  candidates.softmax();
  // The nucleus is nearly always short: sort a prefix, and a longer one only where that was not enough.
  for (size_t length = candidates.sorted ? items.size() : 256;; length *= 8) {
    candidates.sort_prefix(length);
    const size_t end = std::min(length, items.size());
    double sum = 0;
    for (size_t i = 0; i < end; ++i) {
      sum += items[i].probability;
      if (sum < p) continue;
      candidates.keep_first(i + 1);
      candidates.sorted = true;
      return;
    }
    if (end == items.size()) return;
  }
}

void min_p(Candidates& candidates, float p) {
  const float least = candidates.max_logit() + std::log(p);
  std::erase_if(candidates.items, [&](const Candidate& c) { return c.logit < least; });
}

void xtc(Candidates& candidates, float threshold) {
  if (threshold > 0.5f) return;  // two tokens cannot both have more than half
  auto& items = candidates.items;
  candidates.softmax();
  candidates.sort_prefix(items.size());
  size_t above = 0;
  while (above < items.size() && items[above].probability >= threshold) ++above;
  if (above >= 2) items.erase(items.begin(), items.begin() + static_cast<ptrdiff_t>(above) - 1);
}

namespace {

constexpr Truncation kTruncations[] = {
    {.is_on = [](const SamplerOptions& o) { return o.typical_p < 1; },
     .apply = [](Candidates& c, const SamplerOptions& o, Draws&) { typical(c, o.typical_p); }},
    {.is_on = [](const SamplerOptions& o) { return o.top_p < 1; },
     .apply = [](Candidates& c, const SamplerOptions& o, Draws&) { top_p(c, o.top_p); },
     .on_device = true},
    {.is_on = [](const SamplerOptions& o) { return o.min_p > 0; },
     .apply = [](Candidates& c, const SamplerOptions& o, Draws&) { min_p(c, o.min_p); },
     .on_device = true},
    {.is_on = [](const SamplerOptions& o) { return o.xtc_probability > 0; },
     .apply =
         [](Candidates& c, const SamplerOptions& o, Draws& draws) {
           if (draws.uniform() < o.xtc_probability) xtc(c, o.xtc_threshold);
         }},
};

}  // namespace

std::span<const Truncation> truncations() { return kTruncations; }

}  // namespace gabbro::sampling
