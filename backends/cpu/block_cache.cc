#include "backends/cpu/block_cache.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace gabbro::cpu {

void* BlockCache::take(size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto newest = std::find_if(blocks_.rbegin(), blocks_.rend(), [&](const Block& b) { return b.bytes == bytes; });
  if (newest == blocks_.rend()) return nullptr;
  void* const pointer = newest->pointer;
  blocks_.erase(std::next(newest).base());
  bytes_ -= bytes;
  return pointer;
}

void BlockCache::put(void* pointer, size_t bytes) {
  if (bytes > kLargest) return std::free(pointer);
  const std::lock_guard lock(mutex_);
  blocks_.push_back({pointer, bytes});
  bytes_ += bytes;
  while (bytes_ > kMost) {
    bytes_ -= blocks_.front().bytes;
    std::free(blocks_.front().pointer);
    blocks_.pop_front();
  }
}

size_t BlockCache::clear() {
  const std::lock_guard lock(mutex_);
  for (const Block& block : blocks_) std::free(block.pointer);
  blocks_.clear();
  return bytes_.exchange(0);
}

}  // namespace gabbro::cpu
