#include "src/engine/sampling/candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gabbro::sampling {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

bool before(const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; }

// Calls visit(i) for each index whose logit is larger than *threshold, which `visit` may raise. The test of a whole
// block compiles to a few vector comparisons, and few blocks of real logits pass it: 49,152 logits take about 10 µs.
template <class Visit>
void scan_larger(std::span<const float> logits, const float* threshold, Visit visit) {
  constexpr size_t kBlock = 64;
  size_t start = 0;
  for (; start + kBlock <= logits.size(); start += kBlock) {
    const float* block = logits.data() + start;
    const float limit = *threshold;
    int any = 0;
    for (size_t i = 0; i < kBlock; ++i) any |= block[i] > limit;
    if (!any) continue;
    for (size_t i = 0; i < kBlock; ++i) {
      if (block[i] > *threshold) visit(start + i);
    }
  }
  for (size_t i = start; i < logits.size(); ++i) {
    if (logits[i] > *threshold) visit(i);
  }
}

}  // namespace

void Candidates::assign_top(std::span<const float> logits, int64_t count) {
  items.clear();
  const bool all = count <= 0 || count >= static_cast<int64_t>(logits.size());
  const size_t wanted = all ? logits.size() : static_cast<size_t>(count);
  // Selecting only when twice as many (and a block's worth) have gathered makes the cost of a selection constant per
  // candidate. A later equal logit has a higher id, so "larger than the least kept" is exact.
  const size_t room = 2 * wanted + 64;
  float threshold = kLowest;
  scan_larger(logits, &threshold, [&](size_t i) {
    items.push_back({static_cast<int32_t>(i), std::min(logits[i], kLargest), 0.0f});
    if (all || items.size() < room) return;
    std::nth_element(items.begin(), items.begin() + static_cast<ptrdiff_t>(wanted) - 1, items.end(), before);
    items.resize(wanted);
    threshold = items.back().logit;
  });
  sorted = false;
  if (all) return;
  const size_t kept = std::min(wanted, items.size());
  sort_prefix(kept);
  items.resize(kept);
  sorted = true;
}

void Candidates::sort_prefix(size_t count) {
  if (sorted) return;
  if (count >= items.size()) {
    std::sort(items.begin(), items.end(), before);
    sorted = true;
    return;
  }
  const auto middle = items.begin() + static_cast<ptrdiff_t>(count);
  std::nth_element(items.begin(), middle, items.end(), before);
  std::sort(items.begin(), middle, before);
}

float Candidates::max_logit() const {
  if (sorted && !items.empty()) return items.front().logit;
  float largest = kLowest;
  for (const Candidate& c : items) largest = std::max(largest, c.logit);
  return largest;
}

void Candidates::softmax() {
  const float largest = max_logit();
  double sum = 0;
  for (Candidate& c : items) {
    c.probability = std::exp(c.logit - largest);
    sum += c.probability;
  }
  const float scale = static_cast<float>(1.0 / sum);
  for (Candidate& c : items) c.probability *= scale;
}

int32_t argmax(std::span<const float> logits) {
  float best = kLowest;
  int32_t id = -1;
  scan_larger(logits, &best, [&](size_t i) {
    best = logits[i];
    id = static_cast<int32_t>(i);
  });
  return id;
}

}  // namespace gabbro::sampling
