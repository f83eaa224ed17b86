// Numbers for values: equal values get the same number. Open addressing; the values are stored by the caller.
#pragma once

#include <cstdint>
#include <vector>

namespace gabbro::text::grammar {

inline uint64_t mix_hash(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15U;
  return hash ^ hash >> 29;
}

class InternTable {
 public:
  // The number for which is_equal(number) is true, or the next one after make() stored the value.
  template <class IsEqual, class Make>
  uint32_t find_or_add(uint64_t hash, const IsEqual& is_equal, const Make& make) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    const size_t mask = slots_.size() - 1;
    for (size_t at = hash & mask;; at = (at + 1) & mask) {
      Slot& slot = slots_[at];
      if (slot.number == kFree) {
        make();
        slot = {hash, static_cast<uint32_t>(count_++)};
        return slot.number;
      }
      if (slot.hash == hash && is_equal(slot.number)) return slot.number;
    }
  }
  size_t size() const { return count_; }

 private:
  static constexpr uint32_t kFree = ~uint32_t{0};
  struct Slot {
    uint64_t hash = 0;
    uint32_t number = kFree;
  };

  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : 2 * slots_.size());
    old.swap(slots_);
    const size_t mask = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.number == kFree) continue;
      size_t at = slot.hash & mask;
      while (slots_[at].number != kFree) at = (at + 1) & mask;
      slots_[at] = slot;
    }
  }

  std::vector<Slot> slots_;
  size_t count_ = 0;
};

}  // namespace gabbro::text::grammar
