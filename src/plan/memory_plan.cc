#include "src/plan/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "src/base/round_up.h"

namespace gabbro {

MemoryPlan plan_memory(std::span<const Lifetime> lifetimes) {
  constexpr size_t kAlignment = 64;  // a cache line, and the widest vector
  MemoryPlan plan{.offsets = std::vector<size_t>(lifetimes.size(), 0)};
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  std::vector<size_t> placed;  // by ascending offset
  for (const size_t buffer : order) {
    const Lifetime& life = lifetimes[buffer];
    const size_t bytes = round_up(life.bytes, kAlignment);
    if (bytes == 0) continue;
    size_t offset = 0;
    for (const size_t other : placed) {
      const Lifetime& neighbor = lifetimes[other];
      if (neighbor.last < life.first || neighbor.first > life.last) continue;
      if (plan.offsets[other] >= offset + bytes) break;
      offset = std::max(offset, plan.offsets[other] + round_up(neighbor.bytes, kAlignment));
    }
    plan.offsets[buffer] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    placed.insert(std::ranges::upper_bound(placed, offset, {}, [&](size_t other) { return plan.offsets[other]; }),
                  buffer);
  }
  return plan;
}

}  // namespace gabbro
