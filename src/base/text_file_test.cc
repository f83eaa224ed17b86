#include "src/base/text_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "gabbro/error.h"

namespace gabbro {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace std::string_literals;

std::string text_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(TextFile, TheMarkOfUtf8IsNotPartOfTheText) {
  EXPECT_EQ(without_byte_order_mark("\xEF\xBB\xBF"
                                    "ab",
                                    "f"),
            "ab");
  EXPECT_EQ(without_byte_order_mark("\xEF\xBB\xBF", "f"), "");
  EXPECT_EQ(without_byte_order_mark("\xEF\xBB\xBF\xEF\xBB\xBF", "f"), "\xEF\xBB\xBF");
  EXPECT_EQ(without_byte_order_mark("a\xEF\xBB\xBF", "f"), "a\xEF\xBB\xBF");
  EXPECT_EQ(without_byte_order_mark("\xEF\xBB", "f"), "\xEF\xBB");
  EXPECT_EQ(without_byte_order_mark("", "f"), "");
}

TEST(TextFile, OtherEncodingsAreNamed) {
  const auto marked = [](const std::string& text) {
    return text_error([&] { without_byte_order_mark(text, "f.txt"); });
  };
  EXPECT_EQ(marked("\xFF\xFE"
                   "a\0"s),
            "f.txt: is text in UTF-16, not in UTF-8");
  EXPECT_THAT(marked("\xFE\xFF\0a"s), HasSubstr("UTF-16"));
  EXPECT_THAT(marked("\xFF\xFE\0\0a\0\0\0"s), HasSubstr("UTF-32"));
  EXPECT_THAT(marked("\0\0\xFE\xFF\0\0\0a"s), HasSubstr("UTF-32"));
  const auto plain = [](const std::string& text) { return text_error([&] { require_utf8(text, "f.json"); }); };
  EXPECT_THAT(plain("{\0\"\0"s), HasSubstr("f.json: is text in UTF-16LE"));
  EXPECT_THAT(plain("\0{\0\""s), HasSubstr("UTF-16BE"));
  EXPECT_THAT(plain("{\0\0\0"s), HasSubstr("UTF-32LE"));
  EXPECT_THAT(plain("\0\0\0{"s), HasSubstr("UTF-32BE"));
  for (const std::string& text : {"{}"s, ""s, "{\"a\""s, "\0\0\0\0"s, "a\0bc"s}) EXPECT_EQ(plain(text), "") << text;
}

TEST(TextFile, LinesEndInEitherBreak) {
  EXPECT_THAT(split_lines("a\r\nb\n\r\n\nc"), ElementsAre("a", "b", "", "", "c"));
  EXPECT_THAT(split_lines("a\rb\r\r\n"), ElementsAre("a\rb\r"));
  EXPECT_THAT(split_lines("\n"), ElementsAre(""));
  EXPECT_THAT(split_lines(""), IsEmpty());
  EXPECT_EQ(with_unix_lines("a\r\n\r\nb\rc\r\r\n"), "a\n\nb\rc\r\n");
  EXPECT_EQ(with_unix_lines("\r"), "\r");
}

}  // namespace
}  // namespace gabbro
