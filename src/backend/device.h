// The inside of a Device: the plugin's calls, kernels, and what the plans of the device share.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "gabbro/backend/device.h"
#include "src/backend/memory_block.h"
#include "src/base/error.h"
#include "src/tensor/tensor.h"

namespace gabbro {

// A kernel bound to one request; released with its last owner.
struct KernelHandle {
  KernelHandle(const abi::Backend* owner, abi::Device* on, const abi::BoundKernel& kernel)
      : backend(owner), device(on), bound(kernel) {}
  ~KernelHandle() { backend->release_kernel(device, bound.handle); }
  KernelHandle(const KernelHandle&) = delete;
  KernelHandle& operator=(const KernelHandle&) = delete;

  const abi::Backend* backend;
  abi::Device* device;
  abi::BoundKernel bound;
};

class Stream;  // src/backend/stream.h

struct Device::State {
  ~State();

  const abi::Backend* backend = nullptr;
  std::shared_ptr<void> library;
  abi::Device* device = nullptr;

  std::mutex execution_mutex;
  // State of the graph layer for this device (its plan cache).
  std::shared_ptr<void> graph_context;
  // Scratch that all plans of the device share, since only one of them runs at a time.
  std::shared_ptr<void> scratch;
  size_t scratch_bytes = 0;

  // The device's two streams: plans and the copies of Device go to the first, work that is to overlap with them to the
  // second. `owner` is the device of this state.
  Stream& compute_stream(Device& owner);
  Stream& copy_stream(Device& owner);
  std::mutex streams_mutex;
  std::unique_ptr<Stream> compute, copies;  // from their first use on

  void forget_plans();
};

// Null where the backend has no kernel for the request.
std::shared_ptr<KernelHandle> find_kernel(Device& device, const abi::KernelRequest& request);
// Throws Error kInterrupted when `cancel` became true, and what the backend says when it failed.
void execute(Device& device, std::span<const abi::Launch> launches, const std::atomic<bool>* cancel);
// Scratch of at least this size, valid until more is asked for.
void* workspace(Device& device, size_t bytes);

// Status -> exception, naming what was being done.
void check(const abi::Status& status, const std::string& doing);

}  // namespace gabbro
