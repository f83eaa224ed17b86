#include "src/backend/memory_block.h"

#include <algorithm>

#include "src/backend/device.h"

namespace gabbro {
namespace {

// Some versions of HIP refuse a single allocation of more than 85 % of the memory (GPU_SINGLE_ALLOC_PERCENT).
size_t largest_allocation(const Device& device) {
  const uint64_t total = device.facts().memory_total;
  if (device.host_accessible() || total == 0) return SIZE_MAX;
  return total / 5 * 4 / MemoryBlock::kAlignment * MemoryBlock::kAlignment;
}

}  // namespace

MemoryBlock::MemoryBlock(std::shared_ptr<Device> device, size_t bytes) : device_(std::move(device)) {
  const size_t largest = std::max(largest_allocation(*device_), kAlignment);
  for (size_t left = bytes; left > 0; left -= allocations_.back().bytes) {
    const size_t part = std::min(left, largest);
    allocations_.push_back({.memory = device_->allocate_unpooled(part), .bytes = part});
  }
}

std::shared_ptr<void> MemoryBlock::take(size_t bytes) {
  const size_t size = rounded(bytes);
  const auto found =
      std::ranges::find_if(allocations_, [&](const Allocation& one) { return size <= one.bytes - one.used; });
  if (found == allocations_.end()) return device_->allocate(bytes);
  std::shared_ptr<void> piece(found->memory, static_cast<std::byte*>(found->memory.get()) + found->used);
  found->used += size;
  return piece;
}

}  // namespace gabbro
