#include "backends/gpu/index_faults.h"

#include <algorithm>
#include <atomic>

namespace gabbro::gpu {

IndexFaults::IndexFaults(api::Context* context) {
  void* const fault = api::allocate_pinned(context, sizeof(IndexFault));
  fault_ = {static_cast<IndexFault*>(fault), [context](IndexFault* memory) {
              if (memory != nullptr) api::release_pinned(context, memory);
            }};
  void* const claimed = api::allocate(context, sizeof(u32));
  claimed_ = {static_cast<u32*>(claimed), [context](u32* memory) {
                if (memory != nullptr) api::release(context, memory);
              }};
  if (fault == nullptr || claimed == nullptr)
    throw ApiError(abi::StatusCode::kOutOfMemory, "no memory for the device's index check");
  *fault_ = {};
}

void IndexFaults::reset(api::Queue* queue) {
  const u32 none = 0;
  *fault_ = {};
  api::copy_to_device(queue, claimed_.get(), &none, sizeof none);
}

IndexCheck IndexFaults::check_for(const abi::IndexRule& rule) {
  const std::lock_guard lock(mutex_);
  const Site site{.op = rule.op, .axis = rule.axis, .labels = rule.least == 0};
  auto found = std::ranges::find(sites_, site);
  if (found == sites_.end()) found = sites_.insert(sites_.end(), site);
  return {.size = rule.size,
          .least = rule.least,
          .ignored = rule.ignored,
          .fault = fault_.get(),
          .claimed = claimed_.get(),
          .site = static_cast<u32>(found - sites_.begin())};
}

std::optional<std::string> IndexFaults::take(api::Queue* queue) {
  if (std::atomic_ref(fault_->set).load(std::memory_order_acquire) == 0) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (std::atomic_ref(fault_->set).load(std::memory_order_acquire) == 0)
    return std::nullopt;  // taken by another thread
  const IndexFault fault = *fault_;
  reset(queue);
  api::synchronize(queue);  // or another queue's next reset would not be ordered after it
  const Site& site = sites_.at(fault.site);
  return abi::bad_index_message(
      {.size = fault.size, .least = site.labels ? 0 : -fault.size, .op = site.op, .axis = site.axis}, fault.index);
}

}  // namespace gabbro::gpu
