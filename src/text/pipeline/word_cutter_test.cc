#include "src/text/pipeline/word_cutter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gabbro::text {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> cut(const WordCutter& cutter, std::string_view text) {
  std::vector<std::string> words;
  cutter.for_each_word(text, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

TEST(WordCutter, CutsBeforeSpacesThatNoTokenHasInside) {
  WordCutter cutter;
  for (const char* token : {"▁", "▁a", "b", "x▁y"}) cutter.learn(token);
  EXPECT_THAT(cut(cutter, "▁a▁b▁▁c"), ElementsAre("▁a", "▁b", "▁", "▁c"));
  EXPECT_THAT(cut(cutter, "x▁z▁x"), ElementsAre("x▁z", "▁x"));
  EXPECT_THAT(cut(cutter, ""), ElementsAre());
  cutter.learn("▁▁");
  EXPECT_THAT(cut(cutter, "a▁▁▁b"), ElementsAre("a", "▁▁▁b"));
}

// A broken first byte takes the bytes behind it along, so there is no space here.
TEST(WordCutter, ReadsCharactersAsTheEncodersDo) { EXPECT_THAT(cut(WordCutter(), "\xF0▁a"), ElementsAre("\xF0▁a")); }

}  // namespace
}  // namespace gabbro::text
