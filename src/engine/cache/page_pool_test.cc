#include "src/engine/cache/page_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "src/base/error.h"

namespace gabbro {
namespace {

using Tokens = std::vector<int32_t>;

Tokens page_of(int32_t first) {
  Tokens tokens(PagePool::kTokens);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = first + static_cast<int32_t>(i);
  return tokens;
}

TEST(PagePool, HandsOutEachPageOnceUntilItIsReleased) {
  PagePool pool(3);
  const int32_t a = pool.take(), b = pool.take(), c = pool.take();
  EXPECT_EQ((std::vector{a, b, c}), (std::vector{0, 1, 2}));
  EXPECT_EQ(pool.available(), 0);
  EXPECT_THROW(pool.take(), Error);
  pool.release(b);
  EXPECT_EQ(pool.take(), b);
}

TEST(PagePool, FindsAPageByItsName) {
  PagePool pool(4);
  const auto empty = Prefix::empty();
  const int32_t a = pool.take(), b = pool.take(), c = pool.take();
  const auto first = empty->with(page_of(1)), second = first->with(page_of(1));
  pool.set_name(a, first);
  pool.set_name(b, second);
  EXPECT_EQ(pool.find(first), a);
  EXPECT_EQ(pool.find(second), b);
  EXPECT_EQ(pool.find(second->with(page_of(1))), -1);
  pool.set_name(c, first);  // the older page keeps it
  EXPECT_EQ(pool.find(first), a);
}

TEST(PagePool, TakesNamedPagesAlsoIfThereAreFreeOnes) {
  PagePool pool(3);
  const int32_t a = pool.take();
  EXPECT_EQ(pool.take_named(), -1);
  const auto name = Prefix::empty()->with(page_of(1));
  pool.set_name(a, name);
  EXPECT_EQ(pool.take_named(), -1) << "a sequence has it";
  pool.release(a);
  EXPECT_EQ(pool.take_named(), a);
  EXPECT_EQ(pool.find(name), -1);
  EXPECT_EQ(pool.available(), 2);
}

TEST(PagePool, KeepsNamedPagesUntilTheirMemoryIsNeeded) {
  PagePool pool(3);
  const auto first = Prefix::empty()->with(page_of(1)), second = first->with(page_of(2));
  const int32_t a = pool.take(), b = pool.take();
  pool.set_name(a, first);
  pool.set_name(b, second);
  pool.release(b);
  pool.release(a);  // used last
  EXPECT_EQ(pool.available(), 3);
  EXPECT_EQ(pool.take(), 2);  // the free one first
  EXPECT_EQ(pool.find(second), b);
  EXPECT_EQ(pool.take(), b);
  EXPECT_EQ(pool.find(second), -1);
  pool.share(a);  // found and used again: it cannot be taken
  EXPECT_EQ(pool.available(), 0);
  EXPECT_EQ(pool.in_use(), 3);
  EXPECT_THROW(pool.take(), Error);
  pool.release(a);
  EXPECT_EQ(pool.take(), a);
  EXPECT_EQ(pool.find(first), -1);
}

TEST(PagePool, ANamelessPageIsFreeOnceNoSequenceHasIt) {
  PagePool pool(1);
  const int32_t a = pool.take();
  pool.set_name(a, Prefix::empty()->with(page_of(1)));
  pool.share(a);
  EXPECT_TRUE(pool.is_shared(a));
  pool.remove_name(a);
  pool.release(a);
  EXPECT_FALSE(pool.is_shared(a));
  EXPECT_EQ(pool.available(), 0);
  pool.release(a);
  EXPECT_EQ(pool.take(), a);
}

// Random use, against a plain model of counts and names.
TEST(PagePool, CountsAndNamesAgreeWithAPlainModel) {
  std::mt19937 random(3);
  PagePool pool(6);
  std::map<int32_t, int> counts;
  std::map<int32_t, int32_t> names;  // page -> first token
  const auto empty = Prefix::empty();
  for (int step = 0; step < 20000; ++step) {
    const auto pick = [&] {
      return std::next(counts.begin(), static_cast<std::ptrdiff_t>(random() % counts.size()))->first;
    };
    switch (random() % 5) {
      case 0:
        if (counts.size() == 6) {
          EXPECT_THROW(pool.take(), Error);
        } else {
          const int32_t page = pool.take();
          ASSERT_FALSE(counts.contains(page));
          names.erase(page);
          counts[page] = 1;
        }
        break;
      case 1:
        if (!counts.empty()) {
          const int32_t page = pick();
          pool.share(page);
          ++counts[page];
        }
        break;
      case 2:
        if (!counts.empty()) {
          const int32_t page = pick();
          pool.release(page);
          if (--counts[page] == 0) counts.erase(page);
        }
        break;
      case 3:
        if (!counts.empty()) {
          const int32_t page = pick(), first = static_cast<int32_t>(random() % 9);
          const bool taken = std::ranges::any_of(names, [&](const auto& entry) { return entry.second == first; });
          if (names.contains(page)) break;
          pool.set_name(page, empty->with(page_of(first)));
          if (!taken) names[page] = first;
        }
        break;
      default:
        const auto first = static_cast<int32_t>(random() % 9);
        const auto named = std::ranges::find_if(names, [&](const auto& entry) { return entry.second == first; });
        const int32_t found = pool.find(empty->with(page_of(first)));
        ASSERT_EQ(found, named == names.end() ? -1 : named->first);
        if (found >= 0 && random() % 2 == 0) {
          pool.share(found);
          ++counts[found];
        }
    }
    ASSERT_EQ(pool.available(), 6 - std::ssize(counts));
  }
}

}  // namespace
}  // namespace gabbro
