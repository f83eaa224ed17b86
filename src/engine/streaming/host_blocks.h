// Feed-forward blocks in host memory that the CPU computes in place in passes of few tokens, while the bus copies the
// weights of other layers. Their weights are in host memory twice: for the CPU, and for the GPU, which computes
// prompts.
#pragma once

#include <memory>
#include <vector>

#include "src/engine/streaming/link_probe.h"
#include "src/engine/streaming/placement.h"

namespace gabbro::streaming {

// Whether the matrix with this name (GGUF's) belongs to a dense feed-forward block, not to a mixture of experts.
bool is_feed_forward(const std::string& name);

// A layer whose feed-forward block is in host memory as a whole.
struct HostLayer {
  int64_t number = 0;
  uint64_t moved_bytes = 0;  // of the block, copied to the device per pass
  uint64_t cpu_bytes = 0;    // of the same matrices, in the CPU's format
};
std::vector<HostLayer> host_layers(const Placement& placement, const Device& cpu);

struct HostPlan {
  std::vector<HostLayer> layers;  // computed by the CPU
  int64_t tokens = 0;             // of a pass, at most; 0: the CPU computes none
  uint64_t moved_bytes = 0;       // saved per pass
  uint64_t cpu_bytes = 0;
  double cpu_seconds = 0;  // of a pass of one token
};

// A pass of one token takes the time of the slowest of disk, bus and CPU, which work at the same time. The plan has the
// number of layers that makes it shortest, spread over the model, within `memory` bytes of host memory. `tokens`: the
// most for which the CPU takes no longer than the bus would with all layers.
HostPlan plan_host_blocks(const Placement& placement, const std::vector<HostLayer>& layers, uint64_t memory,
                          const LinkSpeeds& links, const CpuSpeeds& cpu);

// The plan for `device` with the rest of `host_memory`, by measured speeds. Empty if the device uses the host's memory.
// `cpu`: opened if the host memory holds weights.
HostPlan measured_host_plan(const Placement& placement, const std::string& path, Device& device, uint64_t host_memory,
                            int threads, std::shared_ptr<Device>& cpu);

}  // namespace gabbro::streaming
