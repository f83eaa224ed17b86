// PCIe, the IOMMU, and power: what a card's slot and board do to it.
#include <fmt/format.h>

#include "src/backend/doctor/checks.h"

namespace gabbro::doctor {
namespace {

using namespace discovery;

constexpr int kBusy = 90;  // percent

std::vector<const Card*> discrete_cards(const Examination& e) {
  std::vector<const Card*> cards = driven_amd_cards(e);
  std::erase_if(cards, [](const Card* card) { return card->integrated; });
  return cards;
}

bool passes_through(const Examination& e, const Card& card) {
  return card.pci.iommu == "identity" || e.machine.kernel.command_line.find("iommu=pt") != std::string::npos;
}

}  // namespace

Finding check_iommu(const Examination& e) {
  const auto cards = discrete_cards(e);
  if (cards.empty()) return skipped("there is no discrete AMD GPU with the amdgpu driver");
  if (!e.machine.kernel.iommu && cards.front()->pci.iommu.empty()) return ok("no IOMMU is active");
  for (const Card* card : cards) {
    if (passes_through(e, *card)) continue;
    const std::string state =
        fmt::format("{}: the IOMMU translates its accesses ({})", label(*card),
                    card->pci.iommu.empty() ? "no iommu=pt on the kernel command line" : card->pci.iommu);
    if (cards.size() < 2) return ok(state + "; this matters between several GPUs");
    return warning(state + ": copies between GPUs may be wrong or hang",
                   "add iommu=pt to GRUB_CMDLINE_LINUX in /etc/default/grub, then sudo update-grub && sudo reboot");
  }
  return ok("the IOMMU passes GPUs through (iommu=pt)");
}

Finding check_atomics(const Examination& e) {
  const auto cards = discrete_cards(e);
  if (cards.empty()) return skipped("there is no discrete AMD GPU with the amdgpu driver");
  for (const Card* card : cards) {
    if (!card->kfd || card->kfd->atomics) continue;
    return warning(
        fmt::format("{}: its PCIe path has no atomics, which ROCm's runtime relies on", label(*card)),
        "move the card to a slot that is wired to the processor, without a riser; sudo dmesg | grep atomics");
  }
  return ok("PCIe atomics reach every card that the compute driver offers");
}

Finding check_link(const Examination& e) {
  const auto cards = discrete_cards(e);
  std::string list;
  for (const Card* card : cards) {
    const PcieLink& link = card->pci.link;
    if (link.width == 0) continue;
    const std::string state = fmt::format("{}: {} of {} lanes, up to {}", label(*card), link.width, link.max_width,
                                          link.max_speed.empty() ? "an unknown speed" : link.max_speed);
    // The speed is not a finding: it falls while a card is idle.
    if (link.max_width > 0 && link.width * 2 <= link.max_width) {
      return warning(state + ": models load, and stream, at that share of the speed",
                     "seat the card in the slot with the most lanes (next to the processor), without a riser");
    }
    list += (list.empty() ? "" : "; ") + state;
  }
  return list.empty() ? skipped("no discrete AMD GPU says how it is linked") : ok(list);
}

Finding check_large_bar(const Examination& e) {
  const auto cards = discrete_cards(e);
  if (cards.empty()) return skipped("there is no discrete AMD GPU with the amdgpu driver");
  for (const Card* card : cards) {
    if (!card->kfd || card->kfd->large_bar) continue;
    return warning(fmt::format("{}: the processor reaches only a part of its memory (no large BAR)", label(*card)),
                   "enable Above 4G Decoding and Resizable BAR in the firmware's settings");
  }
  return ok("the processor reaches all of each card's memory");
}

Finding check_idle(const Examination& e) {
  if (e.self_test && !e.machine.root.recorded()) return check_idle_after_work(e);
  const bool computing = !e.machine.root.list("/sys/class/kfd/kfd/proc").empty();
  std::string list;
  for (const Card* card : driven_amd_cards(e)) {
    if (!card->pci.busy_percent) continue;
    const std::string state =
        fmt::format("{}: {} % busy{}", label(*card), *card->pci.busy_percent,
                    card->pci.watts ? fmt::format(", {:.0f} W", *card->pci.watts) : std::string());
    if (*card->pci.busy_percent >= kBusy && !computing) {
      return warning(state + ", though no process computes on it",
                     "sudo fuser -v /dev/dri/* /dev/kfd shows who holds it; end that program, or reboot");
    }
    list += (list.empty() ? "" : "; ") + state;
  }
  return list.empty() ? skipped("no AMD GPU says how busy it is") : ok(list);
}

}  // namespace gabbro::doctor
