// All that discovery knows of a machine without asking a vendor's library: what survey, doctor and error messages
// judge.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/backend/discovery/card.h"
#include "src/backend/discovery/environment.h"
#include "src/backend/discovery/kernel.h"
#include "src/backend/discovery/memory_budget.h"
#include "src/backend/discovery/process.h"
#include "src/backend/discovery/system_root.h"

namespace gabbro::discovery {

struct Machine {
  SystemRoot root;
  Environment environment;
  KernelFacts kernel;
  ProcessFacts process;
  HostMemory memory;
  std::vector<Card> cards;
  std::map<std::string, DeviceNode> nodes;  // of the cards that there are, by path

  bool has(Vendor vendor) const;
  std::vector<const Card*> cards_of(Vendor vendor) const;
};

// Takes a few milliseconds and never throws; what cannot be read is left empty.
Machine read_machine(const SystemRoot& root = SystemRoot::from_environment(),
                     const Environment& environment = Environment::of_process());

// The device nodes that a card is used through, the most important first.
std::vector<std::string> nodes_of(const Card& card);

// Bytes in total and free: of an APU its budget, of another AMD card what its driver counts, which, unlike the
// runtime's own figure, knows of graphics too (ROCm issue 6389), less 300 MB for a monitor that is connected. {0, 0} if
// the kernel does not say. `runtime_total`: the memory that the runtime counts, 0 if it was not asked. On APUs it may
// be more than the pools have, or less.
MemoryBudget card_memory(const Card& card, const HostMemory& host, uint64_t runtime_total = 0);

}  // namespace gabbro::discovery
