#include "src/text/pipeline/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "src/base/error.h"

namespace gabbro::text {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> split(std::string_view name, const std::string& text) {
  const PreTokenizer pretokenizer(name);
  PreTokenizer::Splitter splitter(pretokenizer);
  std::vector<std::string> out;
  size_t begin = 0;
  for (const size_t end : splitter.split(text)) {
    out.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return out;
}

TEST(PreTokenizer, EveryNameIsListedOnceAndCompiles) {
  std::set<std::string_view> names;
  for (const PreTokenizerRule& rule : pretokenizer_rules()) {
    for (const std::string_view name : rule.names) {
      EXPECT_TRUE(names.insert(name).second) << name;
      std::string joined;
      for (const std::string& word : split(name, "It's 12345 \xED\xA0\x80 x\n\n y")) joined += word;
      EXPECT_EQ(joined, "It's 12345 \xED\xA0\x80 x\n\n y") << name;
    }
  }
  EXPECT_GT(names.size(), 80U);
  EXPECT_THROW(PreTokenizer("llama9"), Error);
}

TEST(PreTokenizer, GroupsDigitsFromTheRight) {
  EXPECT_THAT(split("afmoe", "12345"), ElementsAre("12", "345"));
  EXPECT_THAT(split("superbpe", "1234567"), ElementsAre("1", "234", "567"));
  EXPECT_THAT(split("superbpe", "a123456b"), ElementsAre("a", "123", "456", "b"));
  EXPECT_THAT(split("tiny_aya", "1234 1234x"), ElementsAre("1", "234", " ", "123", "4", "x"));
}

// A pattern must not look beyond the piece that the step before has left: the blank before "7" ends its piece.
TEST(PreTokenizer, StepsSeeOnePieceAtATime) {
  EXPECT_THAT(split("smollm", "a  7"), ElementsAre("a", "  ", "7"));
  EXPECT_THAT(split("gpt-2", "a  7"), ElementsAre("a", " ", " 7"));
}

TEST(PreTokenizer, WhiteSpaceIsUnicodes) {
  EXPECT_THAT(split("whitespace", "a\u3000b\u0085c\u180Ed"), ElementsAre("a", "\u3000", "b", "\u0085", "c\u180Ed"));
}

TEST(PreTokenizer, EmptyTextHasNoWords) { EXPECT_THAT(split("gpt-2", ""), ElementsAre()); }

TEST(Regex, NamesThePatternThatDoesNotCompile) { EXPECT_THROW(Regex("a(b"), Error); }

// More nesting than the just-in-time compiler's stack has room for.
TEST(Regex, LongMatchesThatNestAreFound) {
  const Regex regex("(?:a|(b))*c");
  Regex::Matcher matcher(regex);
  const std::string text = std::string(200000, 'a') + "c";
  ASSERT_TRUE(matcher.find(text, 0));
  EXPECT_EQ(matcher.begin(), 0U);
  EXPECT_EQ(matcher.end(), text.size());
}

}  // namespace
}  // namespace gabbro::text
