#include "tests/emulated_hip/kernels.h"

#include <utility>

#include "backends/gpu/sim/block.h"
#include "backends/gpu/sim/fault_handler.h"
#include "backends/gpu/sim/grid.h"
#include "backends/gpu/sim/memory.h"
#include "tests/emulated_hip/runtime.h"

namespace emulated_hip {
namespace {

using gabbro::gpu::Dim;
using gabbro::gpu::sim::Registration;

class HostKernel : public Kernel {
 public:
  explicit HostKernel(const Registration& registration) : registration_(registration) {
    name = registration.name;
    threads = registration.threads;
    arg_bytes = registration.arg_bytes;
  }
  LaunchError run(Dim grid, uint32_t, uint32_t, const void* args) const override {
    const Settings& settings = Runtime::get().settings;
    std::string error = gabbro::gpu::sim::run_grid(registration_, grid, args, nullptr,
                                                   {.seed = settings.seed, .resident = settings.resident});
    const bool is_access = error.find(": access ") != std::string::npos;
    return {.text = std::move(error), .is_access = is_access};
  }

 private:
  const Registration& registration_;
};

class HostKernels : public KernelModule {
 public:
  HostKernels(std::string source, int wave) : source_(std::move(source)), wave_(wave) {}
  std::unique_ptr<Kernel> find(const char* name) const override {
    const Registration* found = gabbro::gpu::sim::find_kernel(name, static_cast<gabbro::gpu::u32>(wave_));
    if (found == nullptr || !std::string_view(found->file).ends_with(source_)) return nullptr;
    return std::make_unique<HostKernel>(*found);
  }
  std::string description() const override { return source_; }

 private:
  const std::string source_;
  const int wave_;
};

}  // namespace

std::unique_ptr<KernelModule> open_host_kernels(std::string source, int wave) {
  return std::make_unique<HostKernels>(std::move(source), wave);
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
