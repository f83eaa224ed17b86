#include "src/engine/host_copy.h"

#include "src/backend/device.h"
#include "src/base/error.h"

namespace gabbro {

// Memory that a copy may still be written to is not freed before.
HostCopy::~HostCopy() {
  if (!is_late_) return;
  try {
    device_->synchronize();
  } catch (const Error&) {
    // The device failed: it writes nothing more.
  }
}

const void* HostCopy::of(const void* memory, size_t bytes, const std::atomic<bool>* cancel) {
  if (device_->host_accessible()) return memory;
  if (bytes_ < bytes) {
    if (is_late_) device_->synchronize();
    memory_ = device_->allocate_host(bytes);
    bytes_ = bytes;
  }
  is_late_ = true;
  device_->copy_to_host(memory_.get(), memory, bytes, cancel);
  is_late_ = false;
  return memory_.get();
}

}  // namespace gabbro
