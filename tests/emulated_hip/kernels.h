// Kernels of loaded modules: host code, which is the simulator's, or AMD's machine code, which an emulator of
// instructions runs (interpreter.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/gpu/types.h"

namespace emulated_hip {

// Why a launch failed.
struct LaunchError {
  std::string text;        // empty: it did not
  bool is_access = false;  // outside of memory
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Runs all blocks. Needs no lock.
  virtual LaunchError run(gabbro::gpu::Dim grid, uint32_t block_threads, uint32_t block_memory,
                          const void* args) const = 0;

  std::string name;
  uint32_t threads = 0;  // of a block; machine code takes fewer too
  bool takes_fewer_threads = false;
  size_t arg_bytes = 0;
  size_t block_memory = 0;  // bytes of LDS
  size_t local_memory = 0;  // bytes of scratch of a thread
  uint32_t registers = 64;
};

class KernelModule {
 public:
  virtual ~KernelModule() = default;
  // Null if the module has no such kernel.
  virtual std::unique_ptr<Kernel> find(const char* name) const = 0;
  virtual std::string description() const = 0;
};

// The kernels that this source ("kernels/rows/rms_norm.cc") instantiates for waves of `wave` lanes.
std::unique_ptr<KernelModule> open_host_kernels(std::string source, int wave);
// A code object for this target. Throws Failure if the instruction emulator refuses it.
std::unique_ptr<KernelModule> open_machine_code(std::string_view code, const std::string& target);

}  // namespace emulated_hip
