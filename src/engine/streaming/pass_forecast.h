// The time of a pass of one token over streamed weights, from measured speeds: layer by layer, what the link brings,
// the device computes, and the CPU computes in between.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/engine/streaming/host_blocks.h"

namespace gabbro::streaming {

// Bytes per second, and seconds; 0: it takes no time.
struct PassSpeeds {
  LinkSpeeds links{};            // of disk and bus; where the CPU computes, while it does; on a CPU, of packing
  double experts = 0;            // of experts that are read when they are chosen
  double multiply = 0;           // weights that the device multiplies with one token
  double pack = 0;               // chosen experts that a CPU device's threads pack together, instead of computing
  double cpu = 0;                // weights of host blocks that the CPU multiplies
  double layer_seconds = 0;      // of a layer besides: starting its kernels, small operations
  double hand_over_seconds = 0;  // of a layer's values to the CPU and back
};

struct PassForecast {
  double seconds = 0;         // 0: not known
  double file_bandwidth = 0;  // of all reads of a pass, bytes per second; 0: it reads no file
  PassSpeeds speeds{};
};

// Weights that a pass of one token reads besides those of layers: the head.
uint64_t head_bytes(const Placement& placement, const ModelNeeds& needs);

// `read_ahead`: bytes of buffers for reads besides the ring. `head_bytes`: weights that a pass reads besides the
// layers'.
double seconds_of_pass(const Placement& placement, const HostPlan& host, const PassSpeeds& speeds, uint64_t read_ahead,
                       uint64_t head_bytes);

// The same with speeds that are measured here, of weights as the placement has them. `path`: the file that is read.
// `cpu`: the device of host blocks; null: there are none.
PassForecast forecast_pass(const Placement& placement, const HostPlan& host, const std::string& path,
                           const std::shared_ptr<Device>& device, const std::shared_ptr<Device>& cpu, int threads,
                           uint64_t head_bytes);

}  // namespace gabbro::streaming
