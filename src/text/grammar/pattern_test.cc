// Regular expressions: compared with PCRE2, and what is refused.
#include "src/text/grammar/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "src/text/grammar/char_dfa.h"
#include "src/text/grammar/test_grammar.h"
#include "src/text/regex/regex.h"

namespace gabbro::text::grammar {
namespace {

constexpr auto kRegex = OutputFormat::Kind::kRegex;

// A random expression over a few characters.
std::string random_regex(int depth) {
  const int kind = *rc::gen::inRange(0, depth > 0 ? 9 : 3);
  switch (kind) {
    case 0:
      return *rc::gen::element<std::string>("a", "b", "ü", "x");
    case 1:
      return *rc::gen::element<std::string>("[ab]", "[^a]", "[a-x]", "\\d", ".");
    case 2:
      return *rc::gen::element<std::string>("", "a", "0");
    case 3:
    case 4:
      return random_regex(depth - 1) + random_regex(depth - 1);
    case 5:
      return "(?:" + random_regex(depth - 1) + "|" + random_regex(depth - 1) + ")";
    case 6:
      return "(?:" + random_regex(depth - 1) + ")*";
    case 7:
      return "(?:" + random_regex(depth - 1) + ")" + *rc::gen::element<std::string>("?", "+", "{2}", "{1,3}", "{2,}");
    default:
      return "(?:" + random_regex(0) + "){3,40}";
  }
}

RC_GTEST_PROP(Pattern, MatchesWhatPcreMatches, ()) {
  const std::string regex = random_regex(4);
  TestGrammar grammar(kRegex, regex);
  Rules rules;
  const CharDfa dfa = CharDfa::of_pattern(rules, parse_pattern(regex, true));
  const Regex expected("\\A(?:" + regex + ")\\z");
  Regex::Matcher matcher(expected);
  for (int i = 0; i < 20; ++i) {
    std::string text;
    for (int n = *rc::gen::inRange(0, 9); n > 0; --n) text += *rc::gen::element<std::string>("a", "b", "ü", "x", "0");
    RC_ASSERT(grammar.accepts(text) == matcher.find(text, 0));
    RC_ASSERT(dfa.accepts(characters_of(text)) == matcher.find(text, 0));
    RC_ASSERT(dfa.complement().accepts(characters_of(text)) != matcher.find(text, 0));
  }
}

// A state from which no text is complete must not exist: each text that may begin so can be completed.
RC_GTEST_PROP(Pattern, HasNoDeadEnds, ()) {
  TestGrammar grammar(kRegex, random_regex(4));
  Automaton& automaton = grammar.automaton();
  Automaton::State state = automaton.start();
  for (int i = 0; i < 60; ++i) {
    std::vector<Automaton::State> next;
    for (int byte = 0; byte < 256; ++byte) {
      const Automaton::State one = automaton.next(state, static_cast<uint8_t>(byte));
      if (one != Automaton::kDead) next.push_back(one);
    }
    RC_ASSERT(automaton.accepts(state) || !next.empty());
    if (next.empty()) break;
    state = next[static_cast<size_t>(*rc::gen::inRange(0, static_cast<int>(next.size())))];
  }
}

TEST(Pattern, SpellsEachCharacterOfASetInUtf8) {
  // The edges of the lengths of UTF-8, and of surrogates.
  for (const uint32_t edge : {0x7FU, 0x80U, 0x7FFU, 0x800U, 0xD7FFU, 0xE000U, 0xFFFFU, 0x10000U, 0x10FFFFU}) {
    for (uint32_t low = edge > 70 ? edge - 70 : 0; low <= edge; low += 7) {
      Rules rules;
      const RuleId root = rules.add_rule("root");
      rules.define(root, character(rules, {{low, edge}}, Encoding::kUtf8));
      Automaton automaton(std::make_shared<Program>(compile_program(rules, root)));
      for (uint32_t c = low > 3 ? low - 3 : 0; c <= std::min(edge + 3, kLastCharacter); ++c) {
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        const std::u32string text(1, static_cast<char32_t>(c));
        const auto end = automaton.next(automaton.start(), spell(text, Encoding::kUtf8));
        EXPECT_EQ(end != Automaton::kDead && automaton.accepts(end), c >= low && c <= edge) << low << " " << c;
      }
    }
  }
}

TEST(Pattern, AnchorsAreOnlyAtTheEnds) {
  Rules rules;
  const auto matches = [&](const char* regex, const char* text) {
    return CharDfa::of_pattern(rules, parse_pattern(regex, false)).accepts(characters_of(text));
  };
  EXPECT_TRUE(matches("b", "abc"));
  EXPECT_FALSE(matches("^b", "abc"));
  EXPECT_TRUE(matches("^a|d$", "abc"));
  EXPECT_TRUE(matches("^a|d$", "bcd"));
  EXPECT_FALSE(matches("^a|d$", "bcde"));
  EXPECT_TRUE(matches("(^(ab|cd)$)", "cd"));
  EXPECT_FALSE(matches("(^(ab|cd)$)", "cdd"));
}

TEST(Pattern, RefusesWithThePosition) {
  const std::pair<const char*, const char*> kCases[] = {
      {"a\\b", "position 2: word boundaries"},
      {"(?=a)", "position 3: look-ahead"},
      {"(?<!a)b", "position 4: look-behind"},
      {"(a)\\1", "position 4: back-references"},
      {"ab(c", "position 5: missing )"},
      {"a)", "position 2: unexpected )"},
      {"[a", "position 3: missing ]"},
      {"[z-a]", "the range's ends are reversed"},
      {"*a", "position 1: nothing to repeat"},
      {"a{3,2}", "bounds are reversed"},
      {"a++", "possessive"},
      {"\\p{L}", "position 1: Unicode properties"},
      {"(?i)a", "this kind of group"},
      {"a^b", "position 2: ^ and $"},
      {"\\xZ1", "hexadecimal"},
      {"\\", "ends with a backslash"},
      {"a{200000}", "repetitions go up to 100000"},
      {"[\xFF]", "not UTF-8"},
      {"[]", "no text matches"},
  };
  for (const auto& [regex, message] : kCases) EXPECT_THAT(refusal(kRegex, regex), testing::HasSubstr(message)) << regex;
}

TEST(Pattern, ReadsEscapes) {
  TestGrammar grammar(kRegex, R"(\x41\u00e9\u{1F600}\uD83D\uDE00\t\/\cA[\]\-\b]\0{x}{,2})");
  EXPECT_TRUE(grammar.accepts(std::string("Aé😀😀\t/\x01]\0{x}{,2}", 23)));
}

}  // namespace
}  // namespace gabbro::text::grammar
