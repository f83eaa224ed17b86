#include "src/text/regex/simple_pattern.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/text/pipeline/pretokenizer_table.h"
#include "src/text/regex/regex.h"

namespace gabbro::text {
namespace {

// The ends of matches, found in sequence.
std::vector<std::pair<size_t, size_t>> matches_of(const Regex& regex, std::string_view text) {
  std::vector<std::pair<size_t, size_t>> out;
  Regex::Matcher matcher(regex);
  for (size_t at = 0; matcher.find(text, at); at = matcher.end()) out.emplace_back(matcher.begin(), matcher.end());
  return out;
}

// Texts of parts on which patterns branch.
std::string random_text(std::mt19937& random) {
  static constexpr const char* kTextParts[] = {"a",
                                               "B",
                                               "the",
                                               "THE",
                                               "McDonald",
                                               "'s",
                                               "'S",
                                               "'\u017f",
                                               "'ll",
                                               "'RE",
                                               "'",
                                               "\u2019",
                                               " ",
                                               "  ",
                                               "    ",
                                               "\t",
                                               "\n",
                                               "\n\n",
                                               "\r\n",
                                               " \n",
                                               "\n ",
                                               "\u00a0",
                                               "\u3000",
                                               "\u0085",
                                               "\u180e",
                                               "1",
                                               "12",
                                               "1234",
                                               "\u0663",
                                               "\u00bd",
                                               "\u2167",
                                               ".",
                                               ",",
                                               "!?",
                                               "...",
                                               "/",
                                               "//",
                                               "(",
                                               ")",
                                               "$",
                                               "+",
                                               "_",
                                               "\u00e9",
                                               "\u00df",
                                               "e\u0301",
                                               "\u0301",
                                               "\u0416",
                                               "\u0436",
                                               "\u01c5",
                                               "\u02b0",
                                               "\u05d0",
                                               "\u4e2d\u6587",
                                               "\u3042",
                                               "\u30ab",
                                               "\uac00",
                                               "\u0e01\u0e33",
                                               "\u0928\u094d",
                                               "\U0001F600",
                                               "\U0001F468\u200d\U0001F469",
                                               "\U0001D400",
                                               "\ufeff",
                                               "\u20ac",
                                               "\u0964",
                                               "\u3002",
                                               "\uff0c",
                                               "\u212a",
                                               "<|x|>",
                                               "\u2581"};
  std::string text;
  for (size_t i = random() % 12; i-- > 0;) text += kTextParts[random() % std::size(kTextParts)];
  return text;
}

TEST(SimplePattern, FindsWhatPcreFinds) {
  std::mt19937 random(1);
  std::vector<std::string> texts = {"", std::string(300, ' ') + "x", std::string(300, 'A'), std::string(70, '\n')};
  for (int i = 0; i < 400; ++i) texts.push_back(random_text(random));
  std::vector<std::string> patterns = {R"(a{2,3}b?|[^\n]{1,4}+c|.)", R"((?:ab|a)(?!c).?)",
                                       R"(\p{^L}{3}|[\P{N}x])",      R"((?i:k|Sx)\d*|(?:x(?:y|z)?)w)",
                                       R"([\]\-a\\^]+|[-z]|[a-]b)",  R"((?=\p{Lu}).)"};
  for (const PreTokenizerRule& rule : pretokenizer_rules()) {
    for (const PreTokenizerStep& step : rule.steps) patterns.push_back(step.pattern);
  }
  for (const std::string& pattern : patterns) {
    if (pattern.empty()) continue;
    const Regex regex(pattern), by_pcre("(?:" + pattern + ")(?=)");
    ASSERT_FALSE(by_pcre.is_simple());
    for (const std::string& text : texts)
      ASSERT_EQ(matches_of(regex, text), matches_of(by_pcre, text))
          << pattern << " in " << testing::PrintToString(text);
  }
}

// Patterns for most texts: the patterns of nearly all pre-tokenizers.
TEST(SimplePattern, TakesThePatternsOfPreTokenizers) {
  std::vector<std::string> others;
  for (const PreTokenizerRule& rule : pretokenizer_rules()) {
    for (const PreTokenizerStep& step : rule.steps) {
      if (!step.pattern.empty() && !Regex(step.pattern).is_simple()) others.emplace_back(rule.names.front());
    }
  }
  EXPECT_EQ(others, (std::vector<std::string>{"exaone-moe", "kimi-k2", "deepseek-llm"}));
}

TEST(SimplePattern, LeavesOthersToPcre) {
  for (const char* pattern : {"a*", "", "(a|b)*c", "a+?", "^a", "a$", "(a)\\1", "(?:a|)", "\\bx", "[[:alpha:]]",
                              "(?i)a", "(?<=a)b", "(?!ab)c", "\\p{Greek}", "(?i:\xC3\xA9)", "\\w", "a{2}{3}"})
    EXPECT_FALSE(SimplePattern::compile(pattern)) << pattern;
}

TEST(SimplePattern, HoldsTheBoundsOfPatternsOfFiles) {
  const std::string text = std::string(20000, ' ') + "y";
  for (const char* pattern : {" *x", " * * *x|z", "[ x] *[ x] *[ x] *w"}) {
    const Regex regex = Regex::from_file(pattern, "tokenizer.json");
    Regex::Matcher matcher(regex);
    try {
      EXPECT_FALSE(matcher.find(text, 0)) << pattern;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    }
  }
}

TEST(CategoryTable, HasUnicodesCategories) {
  const CategoryTable& table = CategoryTable::get();
  EXPECT_EQ(table.find('A'), Category::kLu);
  EXPECT_EQ(table.find('\n'), Category::kControlSpace);
  EXPECT_EQ(table.find(0), Category::kCc);
  EXPECT_EQ(table.find(0xE9), Category::kLl);
  EXPECT_EQ(table.find(0x1C5), Category::kLt);
  EXPECT_EQ(table.find(0x3000), Category::kZs);
  EXPECT_EQ(table.find(0x4E2D), Category::kLo);
  EXPECT_EQ(table.find(0xE000), Category::kCo);
  EXPECT_EQ(table.find(0x1F600), Category::kSo);
  EXPECT_EQ(table.find(0xE0001), Category::kCf);
  EXPECT_EQ(table.find(0x10FFFF), Category::kCn);
  EXPECT_EQ(table.find(0x110000), Category::kCn);
}

}  // namespace
}  // namespace gabbro::text
