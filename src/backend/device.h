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

// Interface of the executor of a device (src/plan/executor.h) for the device.
class DeviceExecutor {
 public:
  DeviceExecutor() = default;
  virtual ~DeviceExecutor() = default;
  DeviceExecutor(const DeviceExecutor&) = delete;
  DeviceExecutor& operator=(const DeviceExecutor&) = delete;

  // The next evaluation chooses kernels again.
  virtual void forget_plans() = 0;
  // Keeps plans from running while the lock is held.
  virtual std::unique_lock<std::mutex> pause() = 0;
  // Frees the memory that plans share; with the lock of pause().
  virtual void free_workspace() = 0;
};

struct Device::State {
  ~State();

  const abi::Backend* backend = nullptr;
  std::shared_ptr<void> library;
  abi::Device* device = nullptr;

  // From its first use on. The pointer is what other threads may read.
  std::unique_ptr<DeviceExecutor> own_executor;
  std::atomic<DeviceExecutor*> executor = nullptr;
  std::mutex executor_mutex;  // while it is made

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

// Status -> exception, naming what was being done.
void check(const abi::Status& status, const std::string& doing);

// Throws Error kInterrupted when `cancel` became true, and what the backend says when it failed.
inline void execute(Device& device, std::span<const abi::Launch> launches, const std::atomic<bool>* cancel) {
  const Device::State& state = device.state();
  const auto count = static_cast<int32_t>(launches.size());
  const abi::Status status = state.backend->execute(state.device, nullptr, launches.data(), count, cancel);
  if (status.code != abi::StatusCode::kOk) check(status, "running on " + std::string(device.facts().id));
}

}  // namespace gabbro
