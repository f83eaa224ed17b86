#include "backends/gpu/memory/ranges.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "src/base/round_up.h"

namespace gabbro::gpu {

Ranges::~Ranges() {
  for (const auto& [range, size] : ranges_) api::release_addresses(context_, range, size.bytes, size.mapped);
}

// Two pieces of memory, one after the other in a range: what is written across their border is read again.
bool Ranges::works(size_t step) {
  std::array<std::byte, 256> written{}, read{};
  for (size_t i = 0; i < written.size(); ++i) written[i] = static_cast<std::byte>(i);
  void* const range = api::reserve_addresses(context_, 2 * step);
  auto* const begin = static_cast<std::byte*>(range);
  size_t mapped = 0;
  api::Queue* queue = nullptr;
  try {
    while (mapped < 2 * step && api::map_memory(context_, begin + mapped, step)) mapped += step;
    if (mapped == 2 * step) {
      queue = api::create_queue(context_);
      api::copy_to_device(queue, begin + step - written.size() / 2, written.data(), written.size());
      api::copy_to_host(queue, read.data(), begin + step - written.size() / 2, read.size());
      api::synchronize(queue);
    }
  } catch (const ApiError&) {
    read = {};
  }
  if (queue != nullptr) api::destroy_queue(queue);
  api::release_addresses(context_, range, 2 * step, mapped);
  return read == written;
}

size_t Ranges::step() {
  if (step_) return *step_;
  size_t step = 0;
  try {
    step = api::range_step(context_);
    if (step > 0 && !works(step)) step = 0;
  } catch (const ApiError&) {
    step = 0;  // memory is allocated whole
  }
  step_ = step;
  return step;
}

void* Ranges::reserve(size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (step() == 0) return nullptr;
  const size_t size = round_up(std::max<size_t>(bytes, 1), step());
  void* const range = api::reserve_addresses(context_, size);
  ranges_[range] = {size};
  return range;
}

bool Ranges::map(void* begin, size_t bytes) {
  return api::map_memory(context_, begin, bytes) || (pool_.trim() > 0 && api::map_memory(context_, begin, bytes));
}

bool Ranges::extend(void* range, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(range);
  if (found == ranges_.end() || bytes > found->second.bytes)
    throw std::logic_error("gpu: a range is extended that is not one, or past its end");
  Range& now = found->second;
  const size_t wanted = round_up(bytes, step());
  if (wanted <= now.mapped) return true;
  const size_t more = wanted - now.mapped;
  if (!map(static_cast<std::byte*>(range) + now.mapped, more)) return false;
  now.mapped = wanted;
  pool_.count_range(static_cast<std::ptrdiff_t>(more));
  return true;
}

void Ranges::release(void* range) {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(range);
  if (found == ranges_.end()) throw std::logic_error("gpu: released what is not a range");
  const Range size = found->second;
  ranges_.erase(found);
  api::release_addresses(context_, range, size.bytes, size.mapped);
  pool_.count_range(-static_cast<std::ptrdiff_t>(size.mapped));
}

}  // namespace gabbro::gpu
