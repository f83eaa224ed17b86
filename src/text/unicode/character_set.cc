#include "src/text/unicode/character_set.h"

#include <algorithm>
#include <utility>

namespace gabbro::text {
namespace {

constexpr std::string_view kCategoryNames[] = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl",
                                               "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc",
                                               "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};

constexpr uint32_t bit(Category category) { return uint32_t{1} << static_cast<uint32_t>(category); }
constexpr uint32_t kAllCategories = (uint32_t{1} << kCategories) - 1;
constexpr uint32_t kSpaceCategories =
    bit(Category::kZs) | bit(Category::kZl) | bit(Category::kZp) | bit(Category::kControlSpace);

// The property White_Space beyond ASCII, as patterns spell it out.
constexpr CharacterSet::Range kWhiteSpaceRanges[] = {{0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
                                                     {0x2000, 0x200A}, {0x2028, 0x2028}, {0x2029, 0x2029},
                                                     {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};

uint32_t categories_named(std::string_view name) {
  if (name == "Any") return kAllCategories;
  if (name == "White_Space") return kSpaceCategories;
  uint32_t found = 0;
  for (size_t i = 0; i < std::size(kCategoryNames); ++i) {
    if (kCategoryNames[i] == name || (name.size() == 1 && kCategoryNames[i].starts_with(name))) found |= 1U << i;
  }
  if ((found & bit(Category::kCc)) != 0) found |= bit(Category::kControlSpace);
  return found;
}

}  // namespace

void CharacterSet::add(uint32_t first, uint32_t last) {
  for (; first <= last && first < kAscii; ++first) ascii_[first / 64] |= uint64_t{1} << (first % 64);
  if (first <= last) ranges_.push_back({first, last});
}

void CharacterSet::add_categories(uint32_t categories) {
  categories_ |= categories;
  for (uint32_t c = 0; c < kAscii; ++c) {
    if ((categories >> static_cast<uint32_t>(CategoryTable::get().find(c)) & 1) != 0) add(c, c);
  }
}

bool CharacterSet::add_property(std::string_view name, bool negated) {
  if (name.starts_with('^')) return add_property(name.substr(1), !negated);
  const uint32_t categories = categories_named(name);
  if (categories == 0) return false;
  add_categories(negated ? kAllCategories & ~categories : categories);
  return true;
}

bool CharacterSet::ignore_case() {
  if (categories_ != 0 || !ranges_.empty()) return false;
  for (uint32_t c = 'a'; c <= 'z'; ++c) {
    const uint32_t capital = c - 'a' + 'A';
    if (!has_ascii(c) && !has_ascii(capital)) continue;
    add(c, c);
    add(capital, capital);
    if (c == 's') add(0x17F, 0x17F);
    if (c == 'k') add(0x212A, 0x212A);
  }
  return true;
}

void CharacterSet::finish(bool negated) {
  std::sort(ranges_.begin(), ranges_.end(), [](Range a, Range b) { return a.first < b.first; });
  const bool has_spaces = std::all_of(
      std::begin(kWhiteSpaceRanges), std::end(kWhiteSpaceRanges),
      [&](const Range& space) { return std::find(ranges_.begin(), ranges_.end(), space) != ranges_.end(); });
  if (has_spaces) {
    categories_ |= kSpaceCategories;
    std::erase_if(ranges_, [](const Range& range) {
      return std::find(std::begin(kWhiteSpaceRanges), std::end(kWhiteSpaceRanges), range) !=
             std::end(kWhiteSpaceRanges);
    });
  }
  std::vector<Range> joined;
  for (const Range& range : ranges_) {
    if (!joined.empty() && range.first <= joined.back().last) {
      joined.back().last = std::max(joined.back().last, range.last);
    } else {
      joined.push_back(range);
    }
  }
  ranges_ = std::move(joined);
  if (!negated) return;
  for (uint64_t& bits : ascii_) bits = ~bits;
  if (ranges_.empty()) {
    categories_ = kAllCategories & ~categories_;
  } else {
    negated_ = true;
  }
}

}  // namespace gabbro::text
