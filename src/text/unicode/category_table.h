// The general category of each code point, of the version of Unicode that the regular expressions of `tokenizers` have.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace gabbro::text {

enum class Category : uint8_t {
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,
  kMn,
  kMc,
  kMe,
  kNd,
  kNl,
  kNo,
  kPc,
  kPd,
  kPs,
  kPe,
  kPi,
  kPf,
  kPo,
  kSm,
  kSc,
  kSk,
  kSo,
  kZs,
  kZl,
  kZp,
  kCc,
  kCf,
  kCs,
  kCo,
  kCn,
  kControlSpace  // the characters of Cc that have the property White_Space; all of Z* have it
};
constexpr size_t kCategories = 31;

struct CategoryRange {
  uint32_t first, last;
  Category category;
};

// Ascending; code points outside are unassigned (Cn). kControlSpace counts as Cc here.
std::span<const CategoryRange> category_ranges();

// Two levels of pages; pages of one category are shared.
class CategoryTable {
 public:
  static const CategoryTable& get();

  // kCn beyond U+10FFFF.
  Category find(uint32_t code_point) const {
    const uint32_t page = code_point >> kPageBits;
    if (page >= pages_.size()) return Category::kCn;
    return categories_[size_t{pages_[page]} << kPageBits | (code_point & (kPageSize - 1))];
  }

 private:
  static constexpr uint32_t kPageBits = 8, kPageSize = 1 << kPageBits;
  CategoryTable();

  std::array<uint16_t, 0x110000 / kPageSize> pages_;
  std::vector<Category> categories_;
};

}  // namespace gabbro::text
