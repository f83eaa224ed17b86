#include "backends/cpu/small_blocks.h"

#include <cstdlib>
#include <new>

namespace gabbro::cpu {
namespace {

// The address sanitizer finds a use after free only in memory that is really freed.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kKeepsBlocks = false;
#else
constexpr bool kKeepsBlocks = true;
#endif

}  // namespace

void* SmallBlocks::take(size_t bytes) {
  const std::lock_guard lock(mutex_);
  Blocks& blocks = sizes_[bytes / kUnit - 1];
  Block* const block = blocks.first;
  if (block == nullptr) return nullptr;
  blocks.first = block->next;
  --blocks.count;
  return block;
}

void SmallBlocks::put(void* pointer, size_t bytes) {
  const size_t units = bytes / kUnit;  // malloc may have added to it
  if (kKeepsBlocks && units <= sizes_.size()) {
    const std::lock_guard lock(mutex_);
    Blocks& blocks = sizes_[units - 1];
    if (blocks.count < kMost) {
      blocks.first = new (pointer) Block{blocks.first};
      ++blocks.count;
      return;
    }
  }
  std::free(pointer);
}

size_t SmallBlocks::clear() {
  const std::lock_guard lock(mutex_);
  size_t bytes = 0;
  for (size_t i = 0; i < sizes_.size(); ++i) {
    Blocks& blocks = sizes_[i];
    bytes += blocks.count * (i + 1) * kUnit;
    while (blocks.first != nullptr) {
      Block* const block = blocks.first;
      blocks.first = block->next;
      std::free(block);
    }
    blocks.count = 0;
  }
  return bytes;
}

}  // namespace gabbro::cpu
