#include "src/backend/discovery/card.h"

#include <algorithm>
#include <array>

#include "src/backend/discovery/fields.h"

namespace gabbro::discovery {
namespace {

// The kernel does not say in /sys which cards are part of a processor; LLVM's list of AMDGPU processors does.
constexpr std::array<std::string_view, 14> kIntegratedTargets = {"gfx902",  "gfx909",  "gfx90c",  "gfx1013", "gfx1033",
                                                                 "gfx1035", "gfx1036", "gfx1037", "gfx1103", "gfx1150",
                                                                 "gfx1151", "gfx1152", "gfx1153", "gfx1171"};
constexpr uint16_t kMi300a = 0x74a0;

std::string nvidia_uuid(const SystemRoot& root, const std::string& address) {
  const auto text = root.read("/proc/driver/nvidia/gpus/" + address + "/information");
  return text ? text_field(parse_fields(*text, ':'), "GPU UUID") : std::string();
}

void attach(Card& card, const KfdNode& node) {
  card.kfd = node;
  card.uuid = node.uuid;
  card.integrated = is_integrated_target(node.architecture, card.pci.device);
  if (card.pci.render_node.empty() && node.render_minor > 0) {
    card.pci.render_node = "/dev/dri/renderD" + std::to_string(node.render_minor);
  }
}

}  // namespace

bool is_integrated_target(std::string_view architecture, uint16_t device) {
  return device == kMi300a || std::ranges::find(kIntegratedTargets, architecture) != kIntegratedTargets.end();
}

std::vector<Card> read_cards(const SystemRoot& root) {
  const KfdTopology topology = read_kfd_topology(root);
  std::vector<Card> cards;
  for (const PciGpu& gpu : read_pci_gpus(root)) {
    Card card{.pci = gpu};
    if (gpu.vendor == Vendor::kNvidia) {
      card.uuid = nvidia_uuid(root, gpu.address);
      cards.push_back(card);
      continue;
    }
    bool offered = false;
    for (const KfdNode& node : topology.gpus) {
      if (node.pci_address != gpu.address) continue;
      attach(card, node);
      cards.push_back(card);
      offered = true;
    }
    if (offered) continue;
    card.compute_hidden = !topology.unreadable.empty();
    cards.push_back(card);
  }
  // A node of the compute driver without a PCI folder (a container that hides /sys/bus) is a card all the same.
  for (const KfdNode& node : topology.gpus) {
    if (std::ranges::any_of(cards, [&](const Card& card) { return card.pci.address == node.pci_address; })) continue;
    Card card{.pci = {.address = node.pci_address, .driver = "amdgpu", .name = "AMD GPU"}};
    attach(card, node);
    cards.push_back(card);
  }
  return cards;
}

}  // namespace gabbro::discovery
