// Why a card cannot be used: the first broken link of the chain from the kernel's driver to the runtime's device, and
// the exact remedy.
#pragma once

#include <string>

#include "src/backend/discovery/machine.h"
#include "src/backend/discovery/runtime_probe.h"

namespace gabbro::discovery {

// Links of the chain, in the order in which they have to hold. The backend comes before the runtime, since a runtime is
// of no use without a backend.
enum class ChainLink { kDriver, kDeviceNode, kPermission, kComputeDriver, kBackend, kRuntime, kDevice, kNone };

struct Verdict {
  ChainLink broken = ChainLink::kNone;
  std::string reason;  // one line
  std::string fix;     // one line: a command, or what to do

  bool holds() const { return broken == ChainLink::kNone; }
};

// Driver, device nodes, permission, compute driver: what the kernel alone decides.
Verdict judge_kernel(const Machine& machine, const Card& card);
// Runtime, device: with what the runtime answered.
Verdict judge_runtime(const Machine& machine, const Card& card, const RuntimeReport& report);

// The words that give a container its GPUs: "--device /dev/kfd --device /dev/dri --group-add 109".
std::string container_options(const Machine& machine);

}  // namespace gabbro::discovery
