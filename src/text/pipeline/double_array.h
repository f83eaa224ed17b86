// A trie of strings as a double array (Aoe 1989): one memory access a byte.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace gabbro::text {

class DoubleArray {
 public:
  static constexpr int32_t kNone = -1;
  static constexpr uint32_t kRoot = 0;

  DoubleArray() = default;
  // Keys with their values, which are not negative. The last of equal keys counts; empty keys are left out.
  explicit DoubleArray(std::vector<std::pair<std::string_view, int32_t>> keys);

  // Goes from `node` along one byte; false where no key goes on so.
  bool step(uint32_t& node, uint8_t byte) const {
    const uint32_t child = units_[node].base + byte;
    if (child >= units_.size() || units_[child].parent != node + 1) return false;
    node = child;
    return true;
  }
  int32_t value(uint32_t node) const { return units_[node].value; }  // of the key that ends here, or kNone

 private:
  struct Unit {
    uint32_t base = 0;
    uint32_t parent = 0;  // 1 + its index; 0: free
    int32_t value = kNone;
  };
  std::vector<Unit> units_ = std::vector<Unit>(1);
};

}  // namespace gabbro::text
