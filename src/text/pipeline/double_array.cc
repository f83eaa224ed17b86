#include "src/text/pipeline/double_array.h"

#include <algorithm>

namespace gabbro::text {

DoubleArray::DoubleArray(std::vector<std::pair<std::string_view, int32_t>> keys) {
  std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  struct Range {
    size_t begin, end, depth;
    uint32_t node;
  };
  std::vector<Range> open = {{0, keys.size(), 0, kRoot}};
  struct Child {
    uint8_t byte;
    size_t begin, end;
  };
  std::vector<Child> children;
  size_t first_free = 1;  // no free unit is before it
  units_[kRoot].parent = UINT32_MAX;
  while (!open.empty()) {
    auto [begin, end, depth, node] = open.back();
    open.pop_back();
    for (; begin < end && keys[begin].first.size() == depth; ++begin)
      if (depth > 0) units_[node].value = keys[begin].second;
    children.clear();
    while (begin < end) {
      const auto byte = static_cast<uint8_t>(keys[begin].first[depth]);
      size_t next = begin;
      while (next < end && static_cast<uint8_t>(keys[next].first[depth]) == byte) ++next;
      children.push_back({byte, begin, next});
      begin = next;
    }
    if (children.empty()) continue;
    while (first_free < units_.size() && units_[first_free].parent != 0) ++first_free;
    // The first place where all children find a free unit. After many misses the search starts beyond them, so that
    // building stays linear.
    constexpr size_t kMostMisses = 512;
    size_t at = std::max(first_free, size_t{children.front().byte} + 1), misses = 0;
    const auto is_free = [&](size_t i) { return i >= units_.size() || units_[i].parent == 0; };
    for (;; ++at) {
      if (!is_free(at)) continue;
      const size_t base = at - children.front().byte;
      if (std::all_of(children.begin(), children.end(), [&](const Child& c) { return is_free(base + c.byte); })) break;
      if (++misses == kMostMisses) at = first_free = std::max(at, units_.size());
    }
    const size_t base = at - children.front().byte;
    units_[node].base = static_cast<uint32_t>(base);
    if (units_.size() < base + children.back().byte + 1) units_.resize(base + children.back().byte + 1);
    for (const Child& child : children) {
      const auto index = static_cast<uint32_t>(base + child.byte);
      units_[index].parent = node + 1;
      open.push_back({child.begin, child.end, depth + 1, index});
    }
  }
}

}  // namespace gabbro::text
