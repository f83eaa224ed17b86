// Autotuning: a shape may have several candidates, our kernels with other tile sizes or a vendor's library.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "backends/gpu/kernel.h"

namespace gabbro::gpu {

// One way to carry out a request.
struct Candidate {
  std::string name;                               // "tiled 128", "hipBLASLt"; at most 31 characters
  bool ours;                                      // a library's results are held against ours
  std::function<std::unique_ptr<Kernel>()> make;  // null where it does not take the request
  bool only_measured = false;                     // not taken unless it was measured to be the fastest
};

// The kernel of the candidate that is known to be the fastest for the shape; if nothing is known, the first candidate
// that takes the request and is not only_measured, in the order of `candidates`, which is our rule. If the device
// measures, a kernel whose first launch times all candidates with that launch's operands. Null if no candidate takes
// the request. `shape` names all requests that one measurement stands for.
std::unique_ptr<Kernel> autotune(const std::string& shape, std::span<const Candidate> candidates,
                                 const MakeContext& context);

// Lengths that vary from call to call (tokens) are measured once for each power of two: "up to 512".
int64_t length_class(int64_t length);

}  // namespace gabbro::gpu
