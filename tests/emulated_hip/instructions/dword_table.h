// A hash table whose keys are addresses of 32-bit words. Entries are removed by filter() only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace emulated_hip {

template <class Value>
class DwordTable {
 public:
  size_t size() const { return count_; }
  void clear() {
    slots_.clear();
    count_ = 0;
  }

  // Null if the table has no entry of this address.
  Value* find(uint64_t at) {
    if (count_ == 0) return nullptr;
    Slot& slot = slots_[index_of(at)];
    return slot.at == 0 ? nullptr : &slot.value;
  }

  // The entry, made if the table has none. Other entries may move.
  Value& operator[](uint64_t at) {
    if ((count_ + 1) * 2 > slots_.size()) grow();
    Slot& slot = slots_[index_of(at)];
    if (slot.at == 0) {
      slot.at = at;
      ++count_;
    }
    return slot.value;
  }

  // Removes the entries for which keeps(address, value) is false.
  template <class Keeps>
  void filter(const Keeps& keeps) {
    if (count_ == 0) return;
    std::vector<Slot> before = std::exchange(slots_, std::vector<Slot>(slots_.size()));
    count_ = 0;
    for (Slot& slot : before) {
      if (slot.at != 0 && keeps(slot.at, slot.value)) (*this)[slot.at] = slot.value;
    }
    if (count_ == 0) slots_.clear();
  }

 private:
  struct Slot {
    uint64_t at = 0;  // 0: free
    Value value{};
  };
  static constexpr size_t kSmallest = 64;

  // The slot of this address, or the free one where it would be.
  size_t index_of(uint64_t at) const {
    constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;  // 2^64 / the golden ratio
    const size_t mask = slots_.size() - 1;
    size_t i = (at >> 2) * kFactor >> 32 & mask;
    while (slots_[i].at != 0 && slots_[i].at != at) i = (i + 1) & mask;
    return i;
  }
  void grow() {
    const size_t size = slots_.empty() ? kSmallest : slots_.size() * 2;
    std::vector<Slot> before = std::exchange(slots_, std::vector<Slot>(size));
    for (Slot& slot : before) {
      if (slot.at != 0) slots_[index_of(slot.at)] = std::move(slot);
    }
  }

  std::vector<Slot> slots_;
  size_t count_ = 0;
};

}  // namespace emulated_hip
