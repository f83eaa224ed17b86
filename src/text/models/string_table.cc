#include "src/text/models/string_table.h"

#include <bit>
#include <cstring>
#include <random>

namespace gabbro::text {
namespace {

// Folded 128-bit products mix well enough that the low bits can index a table.
uint64_t fold(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{a} * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

template <class T>
uint64_t load(const char* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

constexpr uint64_t kOdd1 = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
constexpr uint64_t kOdd2 = 0xd6e8feb86659fd93;

size_t slots_for(size_t keys) { return std::bit_ceil(keys * 2 + 16); }

}  // namespace

uint64_t hash_seed() {
  static const uint64_t seed = [] {
    std::random_device device;
    return (uint64_t{device()} << 32 | device()) | 1;
  }();
  return seed;
}

uint64_t hash_bytes(std::string_view bytes) {
  const char* data = bytes.data();
  size_t left = bytes.size();
  uint64_t hash = hash_seed() ^ (left * kOdd1);
  for (; left > 16; data += 16, left -= 16) hash = fold(hash ^ load<uint64_t>(data), kOdd2 ^ load<uint64_t>(data + 8));
  uint64_t a = 0, b = 0;
  if (left >= 8) {
    a = load<uint64_t>(data);
    b = load<uint64_t>(data + left - 8);
  } else if (left >= 4) {
    a = load<uint32_t>(data);
    b = load<uint32_t>(data + left - 4);
  } else if (left > 0) {
    a = load<uint8_t>(data) << 16 | load<uint8_t>(data + left / 2) << 8 | load<uint8_t>(data + left - 1);
  }
  return fold(hash ^ a, kOdd1 ^ b);
}

StringTable::StringTable(size_t expected) : slots_(slots_for(expected)) { keys_.reserve(expected); }

int32_t StringTable::find(std::string_view key) const {
  const uint64_t hash = hash_bytes(key);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.number == kNone) return kNone;
    if (slot.tag == tag && keys_[static_cast<size_t>(slot.number)] == key) return slot.number;
  }
}

int32_t StringTable::add(std::string_view key) {
  const auto number = static_cast<int32_t>(keys_.size());
  keys_.push_back(key);
  if (key.empty()) return number;
  if ((used_ + 1) * 2 > slots_.size()) grow();
  const uint64_t hash = hash_bytes(key);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    Slot& slot = slots_[i];
    if (slot.number == kNone) {
      slot = {tag, number};
      ++used_;
      return number;
    }
    if (slot.tag == tag && keys_[static_cast<size_t>(slot.number)] == key) return number;
  }
}

void StringTable::grow() {
  std::vector<Slot> old(slots_for(slots_.size()));
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.number == kNone) continue;
    size_t i = hash_bytes(keys_[static_cast<size_t>(slot.number)]) & mask;
    while (slots_[i].number != kNone) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

}  // namespace gabbro::text
