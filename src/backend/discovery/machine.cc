#include "src/backend/discovery/machine.h"

#include <algorithm>

namespace gabbro::discovery {

bool Machine::has(Vendor vendor) const {
  return std::ranges::any_of(cards, [&](const Card& card) { return card.pci.vendor == vendor; });
}

std::vector<const Card*> Machine::cards_of(Vendor vendor) const {
  std::vector<const Card*> found;
  for (const Card& card : cards) {
    if (card.pci.vendor == vendor) found.push_back(&card);
  }
  return found;
}

std::vector<std::string> nodes_of(const Card& card) {
  if (!card.amd()) return {"/dev/nvidiactl"};
  std::vector<std::string> paths = {"/dev/kfd"};
  if (!card.pci.render_node.empty()) paths.push_back(card.pci.render_node);
  return paths;
}

MemoryBudget card_memory(const Card& card, const HostMemory& host, uint64_t runtime_total) {
  constexpr uint64_t kDisplay = 300'000'000;  // windows that open later
  const MemoryPool& vram = card.pci.vram;
  if (card.integrated) {
    MemoryPool mappable = card.pci.gtt;
    if (runtime_total > vram.total) mappable.total = std::max(mappable.total, runtime_total - vram.total);
    return apu_memory_budget(vram, mappable, host);
  }
  if (vram.total == 0 && card.kfd) return {card.kfd->local_bytes, card.kfd->local_bytes};
  const uint64_t kept = vram.used + (card.pci.display ? kDisplay : 0);
  return {vram.total, vram.total > kept ? vram.total - kept : 0};
}

Machine read_machine(const SystemRoot& root, const Environment& environment) {
  Machine machine{.root = root, .environment = environment};
  machine.kernel = read_kernel(root);
  machine.process = read_process(root);
  machine.memory = read_host_memory(root);
  machine.cards = read_cards(root);
  for (const Card& card : machine.cards) {
    for (const std::string& path : nodes_of(card)) {
      if (!machine.nodes.contains(path)) machine.nodes.emplace(path, read_node(root, path, machine.process));
    }
  }
  return machine;
}

}  // namespace gabbro::discovery
