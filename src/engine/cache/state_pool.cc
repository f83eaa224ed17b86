#include "src/engine/cache/state_pool.h"

#include <algorithm>

#include "src/base/error.h"

namespace gabbro {

void StatePool::take(const std::shared_ptr<SequenceState>& state) {
  if (!has_slots()) return;
  if (state->slot < 0) {
    auto found = std::ranges::find_if(slots_, [](const Slot& slot) { return slot.owner.expired(); });
    if (found == slots_.end()) found = std::ranges::min_element(slots_, {}, &Slot::used);
    if (found == slots_.end() || (found->used == step_ && !found->owner.expired()))
      throw Error(ErrorCode::kNoDevice,
                  fmt::format("the cache has room for the states of {} sequences", slots_.size()));
    if (const auto other = found->owner.lock()) *other = {};
    found->owner = state;
    *state = {.slot = static_cast<int32_t>(found - slots_.begin())};
  }
  slots_[static_cast<size_t>(state->slot)].used = step_;
}

Tensor StatePool::upload(Device& device, std::span<const int32_t> slots) const {
  if (!has_slots()) return {};
  return device.upload(DType::i32, Shape{std::ssize(slots)}, slots.data());
}

}  // namespace gabbro
