#include "src/jinja/marked_text.h"

#include <gtest/gtest.h>

namespace gabbro::jinja {
namespace {

using Spans = std::vector<InputSpan>;

MarkedText sample() {  // ab[cd]1[ef]2gh
  MarkedText text("ab");
  text.append(MarkedText::input("cd", 1));
  text.append(MarkedText::input("ef", 2));
  text.append("gh");
  return text;
}

TEST(MarkedText, AppendingMovesMarksAndJoinsNeighborsOfOneSource) {
  EXPECT_EQ(sample().bytes(), "abcdefgh");
  EXPECT_EQ(sample().spans(), (Spans{{2, 4, 1}, {4, 6, 2}}));
  MarkedText twice = MarkedText::input("x", 7);
  twice.append(MarkedText::input("y", 7));
  twice.append(MarkedText::input("", 8));
  EXPECT_EQ(twice.spans(), (Spans{{0, 2, 7}}));
  EXPECT_FALSE(MarkedText::input("").has_input());
}

TEST(MarkedText, SubstringsCutMarks) {
  const MarkedText text = sample();
  for (size_t begin = 0; begin <= 9; ++begin) {
    for (size_t length = 0; length <= 9; ++length) {
      const MarkedText part = text.substr(begin, length);
      ASSERT_EQ(part.bytes(), begin > 8 ? "" : text.bytes().substr(begin, length));
      Spans expected;  // byte by byte
      for (size_t i = 0; i < part.size(); ++i) {
        for (const InputSpan& span : text.spans()) {
          if (begin + i < span.begin || begin + i >= span.end) continue;
          if (!expected.empty() && expected.back().source == span.source) {
            expected.back().end = i + 1;
          } else {
            expected.push_back({i, i + 1, span.source});
          }
        }
      }
      EXPECT_EQ(part.spans(), expected) << begin << " " << length;
    }
  }
  EXPECT_EQ(text.slice(std::string_view(text.bytes()).substr(3, 2)).spans(), (Spans{{0, 1, 1}, {1, 2, 2}}));
}

TEST(MarkedText, PiecesAreTheWholeText) {
  std::string shown;
  sample().for_each_piece([&](std::string_view piece, const int32_t* source) {
    shown += source != nullptr ? "[" + std::string(piece) + "]" + std::to_string(*source) : std::string(piece);
  });
  EXPECT_EQ(shown, "ab[cd]1[ef]2gh");
}

}  // namespace
}  // namespace gabbro::jinja
