// The merges of byte pair encoding: which two neighboring symbols become which, and how early.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace gabbro::text {

struct Merge {
  static constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();
  uint32_t rank = kNever;  // the lowest goes first
  int32_t result = -1;
};

class MergeTable {
 public:
  explicit MergeTable(size_t expected);

  // The first of two merges of the same pair counts. No more than `expected` may be added.
  void add(int32_t left, int32_t right, Merge merge);
  // As above, but the last of two merges counts.
  void set(int32_t left, int32_t right, Merge merge);

  Merge find(int32_t left, int32_t right) const {
    for (size_t i = slot_of(left, right);; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.left == left && slot.right == right) return slot.merge;
      if (slot.left < 0) return {};
    }
  }

 private:
  struct Slot {
    int32_t left = -1, right = -1;
    Merge merge;
  };
  size_t slot_of(int32_t left, int32_t right) const {
    const uint64_t key = (uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right)) ^ seed_;
    const uint64_t mixed = (key ^ key >> 29) * 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
    return static_cast<size_t>(mixed >> 32) & mask_;
  }

  std::vector<Slot> slots_;
  size_t mask_;
  uint64_t seed_;
};

}  // namespace gabbro::text
