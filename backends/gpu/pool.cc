#include "backends/gpu/pool.h"

#include <algorithm>

namespace gabbro::gpu {

Pool::~Pool() {
  for (const auto& [pointer, bytes] : used_) api::release(context_, pointer);
  trim_locked();
}

// Small sizes to the runtime's step; larger ones to a sixteenth of the size, up to 2 MiB, so that at most a few percent
// are lost.
size_t Pool::size_class(size_t bytes) {
  size_t step = api::allocation_step();
  while (step > 1 && step * 16 < bytes && step < (size_t{2} << 20)) step *= 2;
  return (std::max<size_t>(bytes, 1) + step - 1) / step * step;
}

void* Pool::allocate(size_t bytes) {
  const size_t size = size_class(bytes);
  const std::lock_guard lock(mutex_);
  ++statistics_.requests;
  void* pointer = nullptr;
  if (const auto found = kept_.find(size); found != kept_.end() && !found->second.empty()) {
    pointer = found->second.back();
    found->second.pop_back();
    statistics_.cached -= size;
  } else {
    ++statistics_.misses;
    pointer = api::allocate(context_, size);
    if (pointer == nullptr && statistics_.cached > 0) {
      trim_locked();
      pointer = api::allocate(context_, size);
    }
    if (pointer == nullptr) return nullptr;
  }
  used_[pointer] = size;
  statistics_.used += size;
  statistics_.peak = std::max(statistics_.peak, statistics_.used);
  return pointer;
}

void Pool::release(void* pointer) {
  if (pointer == nullptr) return;
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(pointer);
  if (found == used_.end()) throw std::logic_error("gpu: freed what the pool did not allocate");
  const size_t size = found->second;
  used_.erase(found);
  statistics_.used -= size;
  kept_[size].push_back(pointer);
  statistics_.cached += size;
}

void Pool::trim_locked() {
  for (auto& [size, pointers] : kept_) {
    for (void* pointer : pointers) api::release(context_, pointer);
  }
  kept_.clear();
  statistics_.cached = 0;
}

void Pool::trim() {
  const std::lock_guard lock(mutex_);
  trim_locked();
}

PoolStatistics Pool::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace gabbro::gpu
