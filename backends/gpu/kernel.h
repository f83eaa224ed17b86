// A kernel of the host side: an object specialized for one request, which enqueues GPU kernels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "backends/gpu/accesses.h"
#include "backends/gpu/api.h"
#include "backends/gpu/index_faults.h"
#include "backends/gpu/tuning/chip.h"
#include "gabbro/backend_abi.h"

namespace gabbro::gpu {

class Tuning;

inline constexpr int64_t kCounters = 1024;  // of a stream

// Destination of the launches of one execute().
struct Launcher {
  api::Queue* queue;
  // kCounters zeros in the device's memory, for the blocks of a launch to count each other: callers must restore the
  // zeros.
  uint32_t* counters;
  // The writes of the launches ahead of this one in a list that becomes a graph. A graph begins after all else on the
  // stream has ended. Null: launches before the list may still run.
  const WrittenMemory* ahead = nullptr;

  // Whether these inputs of a launch are as they will be when the launches ahead of it have ended.
  bool settled(const abi::Launch& launch, std::initializer_list<int> inputs) const {
    return ahead != nullptr && std::ranges::none_of(inputs, [&](int i) { return ahead->touches(launch.inputs[i]); });
  }

  template <class Args>
  void operator()(const api::Function* function, Dim grid, const Args& args, uint32_t cluster = 1) const {
    static_assert(std::is_trivially_copyable_v<Args>);
    static_assert(sizeof(Args) <= 4096, "the limit of HIP and CUDA");
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;  // of nothing; the runtimes refuse it
    api::launch(queue, function, grid, &args, sizeof args, cluster);
  }
  void operator()(const api::Gemm* product, const api::GemmOperands& operands) const {
    api::multiply(queue, product, operands);
  }
  void operator()(const api::Convolution* convolution, const void* x, const void* w, void* y, void* scratch) const {
    api::convolve(queue, convolution, x, w, y, scratch);
  }
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void enqueue(const abi::Launch& launch, const Launcher& run) const = 0;

  size_t scratch_bytes = 0;
  std::string implementation;  // "linear q4_0"
  // The implementation's name for note_launch().
  const char* launch_name = "a kernel";
  double bytes = 0;
  double flops = 0;
};

// The device as a kernel sees it when it is made.
class MakeContext {
 public:
  MakeContext(api::Context* context, api::Module* module, uint32_t wave, const Chip& chip, Tuning& tuning,
              IndexFaults& index_faults)
      : context_(context), module_(module), wave_(wave), chip_(chip), tuning_(tuning), index_faults_(index_faults) {}

  uint32_t wave() const { return wave_; }
  uint32_t compute_units() const { return api::compute_units(context_); }
  // Throws where the code object lacks it: host and kernels are of one build.
  const api::Function* function(const std::string& name) const;
  // For those that some targets do not have: null there.
  const api::Function* function_if_any(const std::string& name) const;
  // Whether there is a compiler of kernels on this machine, and GABBRO_FUSE is not 0.
  bool can_compile() const;
  // The kernel `name` of a source that is made at run time; see api::compile_function.
  const api::Function* compiled(const std::string& name, const std::string& source) const;
  // The vendor's libraries that may be asked for products, in that order.
  std::vector<std::string> libraries() const { return api::product_libraries(context_); }
  // Whether they are used for shapes without a measurement.
  bool trusts_libraries() const { return api::trusts_product_libraries(context_); }
  // Null where the library is missing, or does not take the product.
  std::shared_ptr<const api::Gemm> product(const std::string& library, const api::GemmShape& shape) const;
  // The vendor's libraries that may be asked for convolutions, and the same of them.
  std::vector<std::string> convolution_libraries() const { return api::convolution_libraries(context_); }
  bool trusts_convolution_libraries() const { return api::trusts_convolution_libraries(context_); }
  std::string library_version(const std::string& library) const { return api::library_version(context_, library); }
  std::shared_ptr<const api::Convolution> convolution(const std::string& library, const api::ConvShape& shape,
                                                      bool search) const;
  size_t free_memory() const { return api::free_memory(context_); }
  // Thresholds for shapes without a measurement.
  const Chip& chip() const { return chip_; }
  // For shapes with several candidates (autotune.h).
  Tuning& tuning() const { return tuning_; }
  // For a kernel that reads indices by this rule: where it reports one that is out of range.
  IndexCheck index_check(const abi::IndexRule& rule) const { return index_faults_.check_for(rule); }

 private:
  api::Context* context_;
  api::Module* module_;
  uint32_t wave_;
  const Chip& chip_;
  Tuning& tuning_;
  IndexFaults& index_faults_;
};
// Null where there is no kernel for this request. The request lives only during the call.
using MakeKernel = std::unique_ptr<Kernel> (*)(const abi::KernelRequest& request, const MakeContext& context);

// The operand's memory as elements of T.
template <class T>
const T* input(const abi::Launch& launch, int index) {
  return static_cast<const T*>(launch.inputs[index].data);
}
template <class T>
T* output(const abi::Launch& launch, int index) {
  return static_cast<T*>(launch.outputs[index].data);
}

// Blocks of `threads` that have a thread for each of `items`.
inline uint32_t blocks_for(int64_t items, uint32_t threads) {
  return static_cast<uint32_t>((items + threads - 1) / threads);
}

// The grid of a kernel that uses flat_block() (kernels/gpu/flat_grid.h). One with too many threads along x for the
// runtime is in slices along z; the last blocks may be more than were asked for.
inline Dim flat_blocks(int64_t blocks, uint32_t threads) {
  const auto most = std::max<int64_t>(static_cast<int64_t>(api::most_threads_along_x() / threads), 1);
  const int64_t slices = std::max<int64_t>((blocks + most - 1) / most, 1);
  return {static_cast<uint32_t>((blocks + slices - 1) / slices), 1, static_cast<uint32_t>(slices)};
}

// Blocks with a thread for each `per_thread` of the items.
inline Dim flat_grid(int64_t items, uint32_t threads, uint32_t per_thread = 1) {
  const int64_t of_block = int64_t{threads} * per_thread;
  return flat_blocks((items + of_block - 1) / of_block, threads);
}

}  // namespace gabbro::gpu
