// One step of the chain of launches that tests graphs: every launch reads a word that the host has copied, and what the
// launch ahead has written.
#include "kernels/elementwise/graph_step.h"

#include "kernels/gpu/gpu.h"

namespace gabbro::gpu::GABBRO_GPU {

GPU_FUNCTION inline void graph_step(const GraphStepArgs& a) {
  a.to[thread_index()] = a.from[thread_index()] * kGraphStepFactor + *a.word;
}

}  // namespace gabbro::gpu::GABBRO_GPU

GPU_KERNEL(graph_step, 64, gabbro::gpu::GraphStepArgs, graph_step)
