// Whether the GPUs can have the memory that they could have.
#include <fmt/format.h>

#include <algorithm>

#include "src/backend/doctor/checks.h"

namespace gabbro::doctor {
namespace {

using namespace discovery;

constexpr uint64_t kPage = 4096;

std::string gib(uint64_t bytes) { return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30)); }

// Three quarters of the memory for the GPU, as AMD advises for machines that mostly run models.
std::string larger_gtt(const HostMemory& host) {
  return fmt::format(
      "add ttm.pages_limit={0} ttm.page_pool_size={0} to GRUB_CMDLINE_LINUX in /etc/default/grub, then "
      "sudo update-grub && sudo reboot",
      host.total / 4 * 3 / kPage);
}

Finding check_apu(const Examination& e, const Card& card) {
  const MemoryPool& vram = card.pci.vram;
  const MemoryPool& gtt = card.pci.gtt;
  const HostMemory& host = e.machine.memory;
  const MemoryBudget budget = card_memory(card, host);
  const std::string summary =
      fmt::format("{}: {} now, at most {} (carve-out {}, GTT limit {}, available {})", label(card), gib(budget.free),
                  gib(budget.total), gib(vram.total), gib(gtt.total), gib(host.available));
  // The firmware's share is lost to everybody else, and the driver prefers GTT where that is larger.
  if (vram.total > (host.total + vram.total) / 4) {
    return warning(summary + ": the firmware reserves much for the GPU alone",
                   "set the UMA frame buffer (carve-out) to its minimum in the firmware's settings; then " +
                       larger_gtt({host.total + vram.total, host.available}));
  }
  if (gtt.total < host.total / 8 * 5) {
    return warning(summary + ": the GTT limit is what bounds it", larger_gtt(host));
  }
  if (!e.machine.kernel.at_least(6, 10)) {
    return warning(summary + fmt::format(": before Linux 6.10 (this is {}) the runtime's plain allocations come from "
                                         "the carve-out alone",
                                         e.machine.kernel.release),
                   "install Linux 6.10 or newer");
  }
  return ok(summary);
}

}  // namespace

Finding check_apu_memory(const Examination& e) {
  const auto cards = driven_amd_cards(e);
  const auto integrated = std::ranges::find_if(cards, [](const Card* card) { return card->integrated; });
  if (integrated == cards.end()) return skipped("there is no integrated AMD GPU");
  Finding found = check_apu(e, **integrated);
  // Next to a discrete card it is not used for models: nothing to fix.
  const bool alone = std::ranges::all_of(cards, [](const Card* card) { return card->integrated; });
  return alone ? found : ok(found.summary);
}

Finding check_free_memory(const Examination& e) {
  std::string list;
  for (const Card* card : driven_amd_cards(e)) {
    const MemoryBudget memory = card_memory(*card, e.machine.memory);
    if (memory.total == 0) continue;
    if (memory.free < memory.total / 4 && !card->integrated) {
      return warning(fmt::format("{}: only {} of {} are free", label(*card), gib(memory.free), gib(memory.total)),
                     "ls /sys/class/kfd/kfd/proc lists the processes that compute on it; end what is not needed");
    }
    list +=
        fmt::format("{}{}: {} of {} free", list.empty() ? "" : "; ", label(*card), gib(memory.free), gib(memory.total));
  }
  return list.empty() ? skipped(kNoAmdCard) : ok(list);
}

}  // namespace gabbro::doctor
