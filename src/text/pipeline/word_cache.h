// The tokens of words that came before: words repeat. One thread's memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "src/text/models/string_table.h"

namespace gabbro::text {

class WordCache {
 public:
  static constexpr size_t kMostBytes = 31;  // longer words are rare
  static constexpr size_t kMostTokens = 7;

  WordCache() : entries_(kEntries) {}

  // Appends the tokens of `word`; where it is not here, those that encode() appends, and keeps them.
  template <class Encode>
  void append(std::string_view word, std::vector<int32_t>& out, Encode encode) {
    if (word.size() > kMostBytes) return encode(out);
    const uint64_t hash = hash_bytes(word);
    Entry& entry = entries_[hash % kEntries];
    if (entry.count > 0 && entry.size == word.size() && std::memcmp(entry.text.data(), word.data(), word.size()) == 0) {
      out.insert(out.end(), entry.tokens.begin(), entry.tokens.begin() + entry.count);
      return;
    }
    const size_t before = out.size();
    encode(out);
    const size_t count = out.size() - before;
    if (count == 0 || count > kMostTokens) return;
    entry.size = static_cast<uint8_t>(word.size());
    entry.count = static_cast<uint8_t>(count);
    std::memcpy(entry.text.data(), word.data(), word.size());
    std::copy(out.begin() + static_cast<ptrdiff_t>(before), out.end(), entry.tokens.begin());
  }

 private:
  static constexpr size_t kEntries = size_t{1} << 14;  // 1 MiB
  struct Entry {
    std::array<char, kMostBytes> text;
    uint8_t size = 0;
    std::array<int32_t, kMostTokens> tokens;
    uint8_t count = 0;
  };
  std::vector<Entry> entries_;
};

}  // namespace gabbro::text
