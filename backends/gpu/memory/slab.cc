#include "backends/gpu/memory/slab.h"

#include <iterator>

namespace gabbro::gpu {

Slab::Slab(void* base, size_t bytes)
    : base_(static_cast<std::byte*>(base)), bytes_(bytes), free_(bytes), gaps_{{0, bytes}} {}

void* Slab::take(size_t bytes) {
  auto best = gaps_.end();
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
    if (gap->second >= bytes && (best == gaps_.end() || gap->second < best->second)) best = gap;
  }
  if (best == gaps_.end()) return nullptr;
  const auto [offset, length] = *best;
  gaps_.erase(best);
  if (length > bytes) gaps_[offset + bytes] = length - bytes;
  free_ -= bytes;
  return base_ + offset;
}

void Slab::release(void* piece, size_t bytes) {
  size_t offset = static_cast<size_t>(static_cast<std::byte*>(piece) - base_);
  free_ += bytes;
  const auto after = gaps_.lower_bound(offset);
  if (after != gaps_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      gaps_.erase(before);
    }
  }
  if (after != gaps_.end() && after->first == offset + bytes) {
    bytes += after->second;
    gaps_.erase(after);
  }
  gaps_[offset] = bytes;
}

}  // namespace gabbro::gpu
