// The handler of SIGSEGV.
#pragma once

namespace gabbro::gpu::sim {

// Makes a fault in a kernel an error of its launch, and one of the host on a protected page HostGuard's. Any other goes
// to the handler that was there before.
void catch_faults();

// Whether a fault of the host at this address was of a page that is protected for a while, and is not any more.
// host_guard.cc defines it.
bool take_host_fault(const void* address);

}  // namespace gabbro::gpu::sim
