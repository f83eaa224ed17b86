#include "src/text/unicode/utf8.h"

#include <gtest/gtest.h>

#include "src/text/unicode/utf8_stream.h"

namespace gabbro::text {
namespace {

// Results of Python 3's bytes.decode("utf-8", errors="replace").
const std::pair<std::string, std::string> kReplaced[] = {
    {"", ""},
    {"a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"},
    {"\xFF", "\uFFFD"},
    {"\x80\xBF", "\uFFFD\uFFFD"},
    {"\xC3(", "\uFFFD("},
    {"\xC3", "\uFFFD"},
    {"\xE2\x82", "\uFFFD"},
    {"\xE2\x82z", "\uFFFDz"},
    {"\xE2\x28\xA1", "\uFFFD(\uFFFD"},
    {"\xF0\x9F\x98", "\uFFFD"},
    {"\xF0\x9F\x98\xF0\x9F\x98\x80", "\uFFFD\U0001F600"},
    {"\xC0\xAF", "\uFFFD\uFFFD"},
    {"\xE0\x80\xAF", "\uFFFD\uFFFD\uFFFD"},
    {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},
    {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
    {"\xF5\x80", "\uFFFD\uFFFD"},
    {"\xF8\x88\x80\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"}};

TEST(Utf8Stream, ReplacesAsPythonDoesHoweverTheBytesArrive) {
  for (const auto& [bytes, expected] : kReplaced) {
    for (size_t step = 1; step <= 5; ++step) {
      Utf8Stream stream;
      std::string out;
      for (size_t at = 0; at < bytes.size(); at += step) {
        out += stream.push(std::string_view(bytes).substr(at, step));
        EXPECT_TRUE(is_valid_utf8(out));
      }
      EXPECT_EQ(out + stream.flush(), expected) << testing::PrintToString(bytes) << " by " << step;
      EXPECT_EQ(stream.flush(), "");
    }
  }
}

TEST(Utf8Stream, HoldsBackNoMoreThanItMust) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("ab\xE2\x82"), "ab");
  EXPECT_EQ(stream.push("\xAC"), "\u20AC");
  EXPECT_EQ(stream.push("\xF0"), "");
  EXPECT_EQ(stream.push("x"), "\uFFFDx");
}

TEST(Utf8, KnowsWhatIsValid) {
  for (const auto& [bytes, expected] : kReplaced)
    EXPECT_EQ(is_valid_utf8(bytes), bytes == expected) << testing::PrintToString(bytes);
  EXPECT_TRUE(is_valid_utf8(std::string(100, 'a')));
  EXPECT_FALSE(is_valid_utf8(std::string(100, 'a') + "\xFF"));
}

TEST(Utf8, WritesWhatItReads) {
  for (const uint32_t code_point : {0U, 0x7FU, 0x80U, 0x7FFU, 0x800U, 0xFFFFU, 0x10000U, 0x10FFFFU}) {
    std::string text;
    append_utf8(text, code_point);
    const Character character = read_utf8(text, 0);
    EXPECT_EQ(character.length, text.size());
    EXPECT_EQ(character.code_point, code_point);
  }
}

// llama.cpp's reading: see unicode_cpts_from_utf8 there. Beyond U+10FFFF it throws; here each byte is replaced.
TEST(Utf8, RepairsAsLlamaCppDoes) {
  std::string buffer;
  EXPECT_EQ(repair_utf8("plain \u20AC", buffer), "plain \u20AC");
  EXPECT_EQ(repair_utf8("a\xFF\x80", buffer), "a\uFFFD\uFFFD");
  EXPECT_EQ(repair_utf8("\xE2\x82z", buffer), "\uFFFD\uFFFDz");
  EXPECT_EQ(repair_utf8("\xC0\xAF", buffer), "/");
  EXPECT_EQ(repair_utf8("\xED\xA0\x80", buffer), "\xED\xA0\x80");
  EXPECT_EQ(repair_utf8("\xF4\x90\x80\x80", buffer), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(repair_utf8("\xF0\x9F", buffer), "\uFFFD\uFFFD");
}

}  // namespace
}  // namespace gabbro::text
