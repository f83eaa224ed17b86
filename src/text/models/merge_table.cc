#include "src/text/models/merge_table.h"

#include <bit>

#include "src/text/models/string_table.h"

namespace gabbro::text {

MergeTable::MergeTable(size_t expected)
    : slots_(std::bit_ceil(expected * 2 + 16)), mask_(slots_.size() - 1), seed_(hash_seed()) {}

void MergeTable::add(int32_t left, int32_t right, Merge merge) {
  size_t i = slot_of(left, right);
  for (; slots_[i].left >= 0; i = (i + 1) & mask_) {
    if (slots_[i].left == left && slots_[i].right == right) return;
  }
  slots_[i] = {left, right, merge};
}

void MergeTable::set(int32_t left, int32_t right, Merge merge) {
  size_t i = slot_of(left, right);
  while (slots_[i].left >= 0 && (slots_[i].left != left || slots_[i].right != right)) i = (i + 1) & mask_;
  slots_[i] = {left, right, merge};
}

}  // namespace gabbro::text
