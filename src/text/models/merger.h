// Merges the symbols of a word in the order of byte pair encoding.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "src/text/models/merge_table.h"

namespace gabbro::text {

// The symbols of one word, and the merging of them. Kept from word to word for its memory.
class Merger {
 public:
  std::vector<int32_t> symbols;

  // Merges by rank; of equal ranks the leftmost goes first.
  void merge(const MergeTable& merges) {
    // Nearly all words are shorter; for them looking through all pairs needs no heap. Longer ones must not take
    // quadratic time.
    constexpr size_t kShortWord = 32;
    if (symbols.size() <= kShortWord) {
      merge_short(merges);
    } else {
      merge_long(merges);
    }
  }

 private:
  static constexpr int32_t kEnd = -1;
  static constexpr int32_t kGone = std::numeric_limits<int32_t>::min();

  struct Candidate {
    uint32_t rank;
    int32_t at;           // the left symbol
    int32_t left, right;  // what stood there; if that has changed, the candidate is void
    int32_t result;
    bool operator<(const Candidate& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
  };

  void merge_short(const MergeTable& merges) {
    const size_t pairs = symbols.size() < 2 ? 0 : symbols.size() - 1;
    found_.resize(pairs);
    for (size_t i = 0; i < pairs; ++i) found_[i] = merges.find(symbols[i], symbols[i + 1]);
    while (!found_.empty()) {
      const auto best = std::min_element(found_.begin(), found_.end(), [](auto a, auto b) { return a.rank < b.rank; });
      if (best->rank == Merge::kNever) return;
      const auto at = best - found_.begin();
      symbols[static_cast<size_t>(at)] = best->result;
      symbols.erase(symbols.begin() + at + 1);
      found_.erase(best);
      const auto i = static_cast<size_t>(at);
      if (i > 0) found_[i - 1] = merges.find(symbols[i - 1], symbols[i]);
      if (i < found_.size()) found_[i] = merges.find(symbols[i], symbols[i + 1]);
    }
  }

  void merge_long(const MergeTable& merges) {
    const auto count = static_cast<int32_t>(symbols.size());
    before_.resize(symbols.size());
    after_.resize(symbols.size());
    for (int32_t i = 0; i < count; ++i) {
      before_[index(i)] = i - 1;
      after_[index(i)] = i + 1 < count ? i + 1 : kEnd;
    }
    heap_.clear();
    for (int32_t i = 0; i + 1 < count; ++i) consider(merges, i);
    while (!heap_.empty()) {
      const Candidate best = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.pop_back();
      const int32_t right = after_[index(best.at)];
      if (symbols[index(best.at)] != best.left || right == kEnd || symbols[index(right)] != best.right) continue;
      symbols[index(best.at)] = best.result;
      symbols[index(right)] = kGone;
      const int32_t next = after_[index(best.at)] = after_[index(right)];
      if (next != kEnd) before_[index(next)] = best.at;
      after_[index(right)] = kEnd;
      if (before_[index(best.at)] != kEnd) consider(merges, before_[index(best.at)]);
      consider(merges, best.at);
    }
    std::erase(symbols, kGone);
  }

  void consider(const MergeTable& merges, int32_t at) {
    const int32_t right = after_[index(at)];
    if (right == kEnd) return;
    const int32_t left_symbol = symbols[index(at)], right_symbol = symbols[index(right)];
    const Merge merge = merges.find(left_symbol, right_symbol);
    if (merge.rank == Merge::kNever) return;
    heap_.push_back({merge.rank, at, left_symbol, right_symbol, merge.result});
    std::push_heap(heap_.begin(), heap_.end());
  }

  static size_t index(int32_t i) { return static_cast<size_t>(i); }

  std::vector<Merge> found_;  // of each pair of neighbors
  std::vector<int32_t> before_, after_;
  std::vector<Candidate> heap_;
};

}  // namespace gabbro::text
