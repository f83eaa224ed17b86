// The time of a pass of one token over streamed weights, from measured speeds: layer by layer, the bytes that the link
// brings, that the device multiplies, and that the CPU multiplies in between.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/engine/streaming/host_blocks.h"

namespace gabbro::streaming {

// Bytes per second, and seconds; 0: it takes no time.
struct PassSpeeds {
  LinkSpeeds links{};            // of disk and bus, measured while the CPU computes; on a CPU, of packing
  double experts = 0;            // experts that are read when they are chosen
  double multiply = 0;           // weights that the device multiplies with one token
  double pack = 0;               // chosen experts that a CPU device's threads pack together, without computing
  double cpu = 0;                // weights of host blocks that the CPU multiplies
  double layer_seconds = 0;      // other time of a layer: kernel launches, small operations
  double hand_over_seconds = 0;  // of a layer's values to the CPU and back
};

struct PassForecast {
  double seconds = 0;         // 0: unknown
  double file_bandwidth = 0;  // of all reads of a pass, bytes per second; 0: it reads no file
  PassSpeeds speeds{};
};

// Weights outside of the layers that a pass of one token reads: the head.
uint64_t head_bytes(const Placement& placement, const ModelNeeds& needs);

// `read_ahead`: bytes of buffers for reads besides the ring. `head_bytes`: weights outside of the layers that a pass
// reads.
double seconds_of_pass(const Placement& placement, const HostPlan& host, const PassSpeeds& speeds, uint64_t read_ahead,
                       uint64_t head_bytes);

// As above, with speeds that are measured here for the placement's weights. `path`: the file that is read. `cpu`: the
// device of host blocks; null: none.
PassForecast forecast_pass(const Placement& placement, const HostPlan& host, const std::string& path,
                           const std::shared_ptr<Device>& device, const std::shared_ptr<Device>& cpu, int threads,
                           uint64_t head_bytes);

}  // namespace gabbro::streaming
