#include "src/text/unicode/category_table.h"

#include <algorithm>
#include <optional>

namespace gabbro::text {

const CategoryTable& CategoryTable::get() {
  static const CategoryTable table;
  return table;
}

CategoryTable::CategoryTable() {
  std::array<std::optional<uint16_t>, kCategories> whole{};  // the page whose characters all have a category
  const auto add_page = [&](std::span<const Category> page) {
    categories_.insert(categories_.end(), page.begin(), page.end());
    return static_cast<uint16_t>((categories_.size() >> kPageBits) - 1);
  };
  const auto ranges = category_ranges();
  auto range = ranges.begin();
  std::array<Category, kPageSize> page{};
  for (uint32_t number = 0; number < pages_.size(); ++number) {
    const uint32_t first = number << kPageBits, last = first | (kPageSize - 1);
    while (range != ranges.end() && range->last < first) ++range;
    const bool is_empty = range == ranges.end() || range->first > last;
    const bool is_uniform = is_empty || (range->first <= first && range->last >= last);
    page.fill(is_uniform && !is_empty ? range->category : Category::kCn);
    if (is_uniform) {
      auto& shared = whole[static_cast<size_t>(page[0])];
      if (!shared) shared = add_page(page);
      pages_[number] = *shared;
      continue;
    }
    for (auto part = range; part != ranges.end() && part->first <= last; ++part) {
      for (uint32_t c = std::max(part->first, first); c <= std::min(part->last, last); ++c)
        page[c - first] = part->category;
    }
    pages_[number] = add_page(page);
  }
  for (const uint32_t c : {0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x85})  // of the first page, which is the first in categories_
    categories_[c] = Category::kControlSpace;
}

}  // namespace gabbro::text
