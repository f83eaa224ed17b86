// Shapes that can be computed in several ways: by kernels of ours with tiles of other sizes, or by a vendor's library.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "backends/gpu/kernel.h"

namespace gabbro::gpu {

// One way to carry out a request.
struct Way {
  std::string name;                               // "tiled 128", "hipBLASLt"; at most 31 characters
  bool ours;                                      // a library's results are held against ours
  std::function<std::unique_ptr<Kernel>()> make;  // null where it does not take the request
};

// The kernel of the way that is known to be the fastest for the shape; of the first way that takes the request where
// nothing is known (by `ways`' order, which is our rule). Where the device measures, a kernel whose first launch times
// all ways, with that launch's operands. Null where no way takes the request. `shape` names all requests that one
// measurement stands for.
std::unique_ptr<Kernel> choose_way(const std::string& shape, std::span<const Way> ways, const MakeContext& context);

// Lengths that vary from call to call (tokens) are measured once for each power of two: "up to 512".
int64_t length_class(int64_t length);

}  // namespace gabbro::gpu
