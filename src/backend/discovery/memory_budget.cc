#include "src/backend/discovery/memory_budget.h"

#include <algorithm>

#include "src/backend/discovery/fields.h"

namespace gabbro::discovery {
namespace {

uint64_t minus(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

uint64_t kilobytes(const Fields& fields, std::string_view key) {
  const auto words = split(text_field(fields, key), " ");
  const uint64_t value = words.empty() ? 0 : parse_number(words[0]).value_or(0);
  return std::min(value, UINT64_MAX >> 10) << 10;
}

// A value that no machine has counts as missing; this also keeps the sums below from overflowing.
uint64_t plausible(uint64_t bytes) { return bytes <= (uint64_t{1} << 50) ? bytes : 0; }

}  // namespace

HostMemory read_host_memory(const SystemRoot& root) {
  const Fields fields = parse_fields(root.read("/proc/meminfo").value_or(""), ':');
  return {kilobytes(fields, "MemTotal"), kilobytes(fields, "MemAvailable")};
}

uint64_t host_reserve(const HostMemory& host) { return std::max(uint64_t{1} << 30, host.total / 16); }

MemoryBudget apu_memory_budget(const MemoryPool& vram, const MemoryPool& gtt, const HostMemory& host) {
  const uint64_t reserve = host_reserve(host);
  const auto budget = [](uint64_t carve_out, uint64_t mappable, uint64_t memory) {
    return plausible(carve_out) + std::min(plausible(mappable), plausible(memory));
  };
  return {.total = budget(vram.total, gtt.total, minus(host.total, reserve)),
          .free = budget(minus(vram.total, vram.used), minus(gtt.total, gtt.used), minus(host.available, reserve))};
}

}  // namespace gabbro::discovery
