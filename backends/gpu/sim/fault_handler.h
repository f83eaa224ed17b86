// The handler of SIGSEGV.
#pragma once

namespace gabbro::gpu::sim {

// Makes a fault in a kernel an error of its launch, and one of the host on a protected page HostGuard's. Any other goes
// to the handler that was there before.
void catch_faults();

}  // namespace gabbro::gpu::sim
