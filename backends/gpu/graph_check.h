// The test of a runtime's graphs: some releases of HIP replay a graph with values from before the last copy, leave
// launches out, or mix up graphs that two threads make at the same time.
#pragma once

#include <string>

#include "backends/gpu/api.h"

namespace gabbro::gpu {

struct GraphCheck {
  std::string problem;                // empty: every replay computed what single launches do
  double launched = 0, replayed = 0;  // seconds of a launch, alone and in a graph
};

// `step`: the kernel graph_step. Two threads, each on its own queue, replay a graph of 300 dependent launches up to 200
// times, each time with another word copied before; takes less than a second. Throws ApiError if the device fails, or
// if it computes something else without graphs.
GraphCheck check_graphs(api::Context* context, const api::Function* step);

}  // namespace gabbro::gpu
