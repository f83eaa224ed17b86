#include "src/text/stop_matcher.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "src/base/error.h"

namespace gabbro::text {
namespace {

struct Result {
  std::string text;
  int match;
  bool operator==(const Result&) const = default;
};

Result run(const std::vector<std::string>& stops, const std::string& text, size_t step) {
  StopMatcher matcher(stops);
  std::string out;
  for (size_t at = 0; at < text.size(); at += step) out += matcher.push(std::string_view(text).substr(at, step));
  out += matcher.flush();
  return {out, matcher.match()};
}

// The definition, in the plainest way: the first end of a match; of those that end there, the longest.
Result by_definition(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    int best = -1;
    for (size_t i = 0; i < stops.size(); ++i) {
      const bool longer = best < 0 || stops[i].size() > stops[static_cast<size_t>(best)].size();
      if (!stops[i].empty() && longer && std::string_view(text).substr(0, end).ends_with(stops[i]))
        best = static_cast<int>(i);
    }
    if (best >= 0) return {text.substr(0, end - stops[static_cast<size_t>(best)].size()), best};
  }
  return {text, -1};
}

TEST(StopMatcher, EmitsTheTextBeforeTheFirstMatch) {
  EXPECT_EQ(run({"END"}, "one two END three", 4), (Result{"one two ", 0}));
  EXPECT_EQ(run({"\n\n", "User:"}, "hi\nUser: x", 1), (Result{"hi\n", 1}));
  EXPECT_EQ(run({"abcd", "bc"}, "abcd", 4), (Result{"a", 1}));
  EXPECT_EQ(run({"bc", "abc"}, "xabc", 2), (Result{"x", 1}));
  EXPECT_EQ(run({}, "text", 1), (Result{"text", -1}));
  EXPECT_EQ(run({""}, "text", 1), (Result{"text", -1}));
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBeAStop) {
  StopMatcher matcher({"</s>", "<|end|>"});
  EXPECT_EQ(matcher.push("a<"), "a");
  EXPECT_EQ(matcher.push("|en"), "");
  EXPECT_EQ(matcher.push("x"), "<|enx");
  EXPECT_EQ(matcher.push("b</"), "b");
  EXPECT_FALSE(matcher.stopped());
  EXPECT_EQ(matcher.push("s>rest"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.push("more"), "");
  EXPECT_EQ(matcher.flush(), "");
}

TEST(StopMatcher, RefusesStopsWithoutEnd) { EXPECT_THROW(StopMatcher({std::string(1 << 17, 'x')}), Error); }

RC_GTEST_PROP(StopMatcher, DoesWhatItsDefinitionSaysHoweverTheTextIsCut, ()) {
  const auto letters = rc::gen::container<std::string>(rc::gen::element('a', 'b', 'c'));
  const auto text = *letters;
  const auto stops = *rc::gen::container<std::vector<std::string>>(letters);
  const auto step = *rc::gen::inRange<size_t>(1, 6);
  const Result result = run(stops, text, step);
  RC_ASSERT(result.text == by_definition(stops, text).text);
  if (result.match >= 0)
    RC_ASSERT(stops[static_cast<size_t>(result.match)] == stops[static_cast<size_t>(by_definition(stops, text).match)]);
}

}  // namespace
}  // namespace gabbro::text
