// Feed-forward blocks in host memory that the CPU computes in place where a pass has few tokens, while the bus moves
// the weights of other layers. Their weights are in host memory twice: for the CPU, and for the GPU, which computes
// prompts.
#pragma once

#include <memory>
#include <vector>

#include "src/engine/streaming/link_probe.h"
#include "src/engine/streaming/placement.h"

namespace gabbro::streaming {

// Whether a matrix of this name (GGUF's) is of a block that is no mixture of experts.
bool is_feed_forward(const std::string& name);

// A layer whose feed-forward block is in host memory as a whole.
struct HostLayer {
  int64_t number = 0;
  uint64_t moved_bytes = 0;  // of the block, that a pass copies to the device
  uint64_t cpu_bytes = 0;    // of the same matrices, as the CPU has them
};
std::vector<HostLayer> host_layers(const Placement& placement, const Device& cpu);

struct HostPlan {
  std::vector<HostLayer> layers;  // that the CPU computes
  int64_t tokens = 0;             // of a pass, at most; 0: none
  uint64_t moved_bytes = 0;       // that a pass saves
  uint64_t cpu_bytes = 0;
  double cpu_seconds = 0;  // of a pass of one token
};

// The time of a pass of one token is that of the slowest of disk, bus and CPU, which work at the same time: as many
// layers as make it shortest, spread over the model, in `memory` bytes of host memory. `tokens`: the most for which the
// CPU takes no longer than the bus would with all layers.
HostPlan plan_host_blocks(const Placement& placement, const std::vector<HostLayer>& layers, uint64_t memory,
                          const LinkSpeeds& links, const CpuSpeeds& cpu);

// The plan for `device` with what is left of `host_memory`, by measured speeds; empty where the device has no memory of
// its own. `cpu`: opened where there is one.
HostPlan measured_host_plan(const Placement& placement, const std::string& path, Device& device, uint64_t host_memory,
                            int threads, std::shared_ptr<Device>& cpu);

}  // namespace gabbro::streaming
