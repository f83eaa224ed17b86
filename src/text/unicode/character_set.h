// The characters that a class of a regular expression matches: of ASCII by a bit each, others by category and range.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "src/text/unicode/category_table.h"

namespace gabbro::text {

class CharacterSet {
 public:
  static constexpr uint32_t kAscii = 128;
  struct Range {
    uint32_t first, last;
    bool operator==(const Range&) const = default;
  };

  void add(uint32_t first, uint32_t last);
  // The property that \p{name} asks for: a category (Lu), a group of them (L), White_Space or Any, after `^` all
  // others. False where the name is another.
  bool add_property(std::string_view name, bool negated);
  // Letters of ASCII in both cases, and U+017F and U+212A, which fold to s and k. False if the set has
  // characters outside of ASCII.
  bool ignore_case();
  // To be called last: the set becomes that of all characters but `these`, where `negated`.
  void finish(bool negated);

  // `category` is that of `c`.
  bool contains(uint32_t c, Category category) const {
    if (c < kAscii) return (ascii_[c / 64] >> (c % 64) & 1) != 0;
    return ((categories_ >> static_cast<uint32_t>(category) & 1) != 0 || is_in_range(c)) != negated_;
  }
  bool has_ascii(uint32_t c) const { return (ascii_[c / 64] >> (c % 64) & 1) != 0; }
  // False where no character beyond ASCII of a category is in the set.
  bool may_have(Category category) const {
    const bool listed = (categories_ >> static_cast<uint32_t>(category) & 1) != 0;
    return negated_ ? !listed : listed || !ranges_.empty();
  }
  // True where the category of a character beyond ASCII says whether it is in the set.
  bool is_by_category() const { return ranges_.empty(); }
  bool operator==(const CharacterSet&) const = default;

 private:
  void add_categories(uint32_t categories);
  bool is_in_range(uint32_t c) const {
    for (const Range& range : ranges_) {
      if (c <= range.last) return c >= range.first;
    }
    return false;
  }

  std::array<uint64_t, 2> ascii_{};  // after negation
  uint32_t categories_ = 0;          // a bit for each
  std::vector<Range> ranges_;        // beyond ASCII, ascending
  bool negated_ = false;             // of categories_ and ranges_
};

}  // namespace gabbro::text
