#include "src/text/chat/thoughts.h"

#include <gtest/gtest.h>

#include <random>

namespace gabbro::text {
namespace {

using Mode = ThoughtSplitter::Mode;

// Thoughts and answer of a text that comes in `cuts`.
std::pair<std::string, std::string> split(Mode mode, const std::string& text, std::vector<size_t> cuts = {},
                                          const ThoughtForm& form = {}) {
  ThoughtSplitter splitter(mode, form);
  std::pair<std::string, std::string> result;
  const auto take = [&](const std::vector<AnswerPiece>& pieces) {
    for (const AnswerPiece& piece : pieces) {
      EXPECT_FALSE(piece.text.empty());
      (piece.is_thought ? result.first : result.second) += piece.text;
    }
  };
  size_t begin = 0;
  cuts.push_back(text.size());
  for (const size_t end : cuts) {
    take(splitter.feed(text.substr(begin, end - begin)));
    begin = end;
  }
  take(splitter.finish());
  return result;
}

using Parts = std::pair<std::string, std::string>;

TEST(Thoughts, AreApartFromTheAnswer) {
  EXPECT_EQ(split(Mode::kDetect, "<think>\nhm\n</think>\n\nyes\n"), Parts("hm", "yes\n"));
  EXPECT_EQ(split(Mode::kDetect, " \n<think>a b</think>c"), Parts("a b", "c"));
  EXPECT_EQ(split(Mode::kOpen, "hm</think>yes"), Parts("hm", "yes"));
  EXPECT_EQ(split(Mode::kDetect, "<think></think>yes"), Parts("", "yes"));
}

TEST(Thoughts, BeginOnlyWhereTheAnswerBegins) {
  EXPECT_EQ(split(Mode::kDetect, "yes <think>no</think>"), Parts("", "yes <think>no</think>"));
  EXPECT_EQ(split(Mode::kOff, "<think>a</think>b"), Parts("", "<think>a</think>b"));
  EXPECT_EQ(split(Mode::kDetect, "<thinking>"), Parts("", "<thinking>"));
}

TEST(Thoughts, EndWithTheFirstCloseTag) {
  EXPECT_EQ(split(Mode::kOpen, "a</thin</think>b</think>c"), Parts("a</thin", "b</think>c"));
}

TEST(Thoughts, MayNotEnd) {
  EXPECT_EQ(split(Mode::kDetect, "<think>a </thi"), Parts("a </thi", ""));
  EXPECT_EQ(split(Mode::kDetect, "<thi"), Parts("", "<thi"));
  EXPECT_EQ(split(Mode::kDetect, " \n "), Parts("", " \n "));
  EXPECT_EQ(split(Mode::kOpen, "a  "), Parts("a", ""));
}

TEST(Thoughts, AreTheSameForEveryCut) {
  std::mt19937 source(3);
  const std::string pieces[] = {"<think>", "</think>", "<", "</thi", " ", "\n", "a", "nk>"};
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (size_t i = source() % 8; i > 0; --i) text += pieces[source() % std::size(pieces)];
    const Mode mode = round % 2 == 0 ? Mode::kDetect : Mode::kOpen;
    std::vector<size_t> all;
    for (size_t i = 1; i < text.size(); ++i) all.push_back(i);
    std::vector<size_t> some;
    for (const size_t cut : all) {
      if (source() % 3 == 0) some.push_back(cut);
    }
    EXPECT_EQ(split(mode, text, all), split(mode, text)) << text;
    EXPECT_EQ(split(mode, text, some), split(mode, text)) << text;
  }
}

// Every cut into two, and byte by byte.
void expect_split(const char* source, const std::string& text, const Parts& expected) {
  const ThoughtForm form = thought_form(source);
  std::vector<size_t> all;
  for (size_t at = 1; at < text.size(); ++at) {
    EXPECT_EQ(split(Mode::kDetect, text, {at}, form), expected) << text << " cut at " << at;
    all.push_back(at);
  }
  EXPECT_EQ(split(Mode::kDetect, text, all, form), expected) << text;
}

TEST(Thoughts, AreInTheTagsOfTheTemplate) {
  expect_split("<think>", "<think>a</think>b", {"a", "b"});
  expect_split("no tags", "<think>a</think>b", {"a", "b"});
  expect_split("{{ '[/THINK]' }}", "[THINK]a [x][/THINK]b", {"a [x]", "b"});
  expect_split("<|START_THINKING|>", "<|START_THINKING|>a<|END_THINKING|>b", {"a", "b"});
  expect_split("<|channel>thought", "<|channel>thought\na<channel|>b", {"a", "b"});
  expect_split("<seed:think>", "<think>a</think>b", {"", "<think>a</think>b"});
  EXPECT_TRUE(ends_with_open_thought("x[THINK]\n", thought_form("[THINK]")));
  EXPECT_TRUE(ends_with_open_thought("x<|channel>thought\n", thought_form("<|channel>thought")));
}

TEST(Thoughts, AreInTheChannelsOfHarmony) {
  const char* const source = "<|start|>assistant<|channel|>final<|message|>";
  expect_split(source,
               "<|channel|>analysis<|message|>hm < m<|end|><|start|>assistant<|channel|>final<|message|>yes<|return|>",
               {"hm < m", "yes"});
  expect_split(source, "plain <|text", {"", "plain <|text"});
  expect_split(source, "<|channel|>commentary<|message|>I look.<|end|>", {"", "I look."});
  const std::string call = "<|channel|>commentary to=functions.f<|message|>{\"a\": 1}<|call|>";
  expect_split(source,
               "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.f "
               "<|constrain|>json<|message|>{\"a\": 1}<|call|>",
               {"hm", call});
  expect_split(source,
               "<|start|>assistant to=functions.f<|channel|>commentary<|constrain|>json<|message|>{\"a\": 1}<|call|>",
               {"", call});
  expect_split(source, "<|channel|>analysis<|message|>cut", {"cut", ""});
  expect_split(source, "<|channel|>anal", {"", ""});
}

TEST(Thoughts, OpenPrompts) {
  EXPECT_TRUE(ends_with_open_thought("a<think>\n"));
  EXPECT_TRUE(ends_with_open_thought("<think>"));
  EXPECT_FALSE(ends_with_open_thought("<think>\n\n</think>\n\n"));
  EXPECT_FALSE(ends_with_open_thought(""));
}

}  // namespace
}  // namespace gabbro::text
