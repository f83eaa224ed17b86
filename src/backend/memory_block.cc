#include "src/backend/memory_block.h"

#include "src/backend/device.h"

namespace gabbro {

MemoryBlock::MemoryBlock(std::shared_ptr<Device> device, size_t bytes) : device_(std::move(device)), free_(bytes) {
  if (bytes > 0) memory_ = device_->allocate_unpooled(bytes);
}

std::shared_ptr<void> MemoryBlock::take(size_t bytes) {
  const size_t size = rounded(bytes);
  if (size > free_) return device_->allocate(bytes);
  std::shared_ptr<void> piece(memory_, static_cast<std::byte*>(memory_.get()) + used_);
  used_ += size;
  free_ -= size;
  return piece;
}

}  // namespace gabbro
