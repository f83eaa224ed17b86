// A flat hash table from strings to their numbers: the number of a key is the order in which it was added.
// The table keeps views; the owner of the bytes must outlive it. Keys come from files, so the hash is seeded per
// process.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace gabbro::text {

uint64_t hash_seed();
uint64_t hash_bytes(std::string_view bytes);

class StringTable {
 public:
  static constexpr int32_t kNone = -1;

  explicit StringTable(size_t expected = 0);

  // Appends a key and returns its number. A key that is there already, or is empty, gets a number but find() never
  // returns it.
  int32_t add(std::string_view key);

  // The number under which `key` was first added, or kNone.
  int32_t find(std::string_view key) const;

  size_t size() const { return keys_.size(); }
  bool unique() const { return used_ == keys_.size(); }  // find() returns every number
  std::string_view key(int32_t number) const { return keys_[static_cast<size_t>(number)]; }

 private:
  struct Slot {
    uint32_t tag = 0;
    int32_t number = kNone;
  };
  void grow();

  std::vector<std::string_view> keys_;
  std::vector<Slot> slots_;  // a power of two, at most half full
  size_t used_ = 0;
};

}  // namespace gabbro::text
