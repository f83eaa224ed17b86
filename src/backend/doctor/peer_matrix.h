// `gabbro doctor --peers`: copies between all ordered pairs of devices of each backend, tested and timed.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace gabbro::doctor {

struct PeerFinding {
  std::string from, to;         // device ids
  bool direct = false;          // else through the host's memory
  std::string reason;           // why not directly, in one line
  size_t wrong_copies = 0;      // of those that were checked, on the route that is taken
  double bytes_per_second = 0;  // of 16 MiB
  double seconds = 0;           // of 4 bytes, with the wait for them
  std::string problem;          // an error of a device, in one line; then nothing else is known
};

// Tests again what earlier processes have kept, and keeps the verdicts: all of Gabbro obeys them. Devices are opened
// one backend after another. Empty where no backend has two usable devices.
std::vector<PeerFinding> examine_peers();

}  // namespace gabbro::doctor
