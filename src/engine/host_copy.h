// Results of a device on the host.
#pragma once

#include <atomic>
#include <memory>

#include "gabbro/device.h"

namespace gabbro {

// A copy of a device's memory in pinned host memory, where the device has its own.
class HostCopy {
 public:
  explicit HostCopy(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  ~HostCopy();
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;

  // The memory itself, or a copy that is valid until the next one. When `cancel` becomes true: kInterrupted.
  const void* of(const void* memory, size_t bytes, const std::atomic<bool>* cancel);

 private:
  std::shared_ptr<Device> device_;
  std::shared_ptr<void> memory_;
  size_t bytes_ = 0;
  bool is_late_ = false;  // a copy to it was not waited for
};

}  // namespace gabbro
