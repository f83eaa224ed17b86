// Asks the HIP runtime and the CUDA driver what they see, in a separate process: a runtime that hangs (ROCm 7 over the
// kernel driver of ROCm 6) or aborts is a finding, and not the end of this program.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "src/backend/discovery/system_root.h"

namespace gabbro::discovery {

enum class RuntimeKind { kHip, kCuda };

enum class RuntimeState {
  kOk,         // loaded, and it listed its devices, if any
  kMissing,    // the library is missing or cannot be loaded
  kFailed,     // it answered with an error
  kHung,       // no answer within the limit
  kCrashed,    // the process ended before the answer
  kNotProbed,  // the tree was recorded without it, or the helper program is missing
};

struct RuntimeReport {
  RuntimeState state = RuntimeState::kNotProbed;
  std::string path;                  // of the library that was loaded
  std::string version;               // "7.2.53211", "13.0"
  std::string message;               // what went wrong, in one line
  std::vector<std::string> devices;  // PCI addresses, in the runtime's order

  bool sees(const std::string& pci_address) const;
};

// Eight cards answer within 5 s; a driver that does not match keeps a runtime waiting for 30 s.
inline constexpr std::chrono::seconds kProbeLimit{12};

// Runs the helper program gabbro_probe; for a recorded tree, returns the recorded report. Never throws.
RuntimeReport probe_runtime(const SystemRoot& root, RuntimeKind kind, std::chrono::milliseconds limit = kProbeLimit);

// "hip" or "cuda", and the names that users know: "HIP runtime", "CUDA driver library".
std::string runtime_key(RuntimeKind kind);
std::string runtime_name(RuntimeKind kind);

}  // namespace gabbro::discovery
