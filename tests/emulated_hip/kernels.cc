#include "tests/emulated_hip/kernels.h"

#include <string>

#include "backends/gpu/sim/fault_handler.h"
#include "backends/gpu/sim/memory.h"
#include "tests/emulated_hip/runtime.h"

namespace emulated_hip {

const gabbro::gpu::sim::Registration* find_kernel(std::string_view source, const char* name, int wave) {
  const auto* found = gabbro::gpu::sim::find_kernel(name, static_cast<gabbro::gpu::u32>(wave));
  return found != nullptr && std::string_view(found->file).ends_with(source) ? found : nullptr;
}

}  // namespace emulated_hip

// The block executor asks these of the owner of the memory.
namespace gabbro::gpu::sim {

std::string describe_address(const void* address) {
  emulated_hip::Runtime& runtime = emulated_hip::Runtime::get();
  const std::lock_guard lock(runtime.mutex);
  return runtime.memory.describe(address);
}

bool take_host_fault(const void*) { return false; }

}  // namespace gabbro::gpu::sim
