#include "src/text/grammar/gbnf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/text/grammar/test_grammar.h"

namespace gabbro::text::grammar {
namespace {

constexpr auto kGrammar = OutputFormat::Kind::kGrammar;

// As llama.cpp's grammars/README.md describes the language.
constexpr const char* kChess = R"(
# a game of chess, abridged
root ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")+
move ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?
)";

TEST(Gbnf, MatchesTexts) {
  TestGrammar chess(kGrammar, kChess);
  EXPECT_TRUE(chess.accepts("1. e4 e5\n2. Nf3 Nc6\n3. O-O-O exd6+\n"));
  EXPECT_FALSE(chess.accepts("1. e4 e5\n"));
  EXPECT_TRUE(chess.begins("1. e4 e5\n"));
  EXPECT_FALSE(chess.begins("1. e9"));
  TestGrammar counts(kGrammar, "root ::= [a-c]{2} (\"x\" |\n \"y\"){1,3} .{0,1} [^\\n]{2,} \"\\\"\\u00e9\"\n");
  EXPECT_TRUE(counts.accepts("abxyx😀zz\"é"));
  EXPECT_FALSE(counts.begins("abz"));
  EXPECT_FALSE(counts.begins("abxx\n\n"));
  TestGrammar many(kGrammar, "root ::= \"ab\"{3,1000} \"!\"");
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "ab";
  EXPECT_TRUE(many.accepts(text + "!"));
  EXPECT_FALSE(many.begins(text + "a"));
  EXPECT_FALSE(many.begins("abab!"));
}

// A stack is needed for these: the texts are not a regular language.
TEST(Gbnf, MatchesNestedTexts) {
  TestGrammar grammar(kGrammar, "root ::= \"(\" root \")\" root | \"\"");
  EXPECT_TRUE(grammar.accepts("(())()"));
  EXPECT_FALSE(grammar.begins("())"));
  EXPECT_FALSE(grammar.accepts("(()"));
  EXPECT_TRUE(grammar.begins(std::string(5000, '(')));
  TestGrammar palindromes(kGrammar, "root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"a\" | \"b\"");
  EXPECT_TRUE(palindromes.accepts("abbabba"));
  EXPECT_FALSE(palindromes.accepts("abbabbb"));
}

TEST(Gbnf, RefusesWithLineAndColumn) {
  const std::pair<const char*, const char*> kCases[] = {
      {"", "no rule 'root'"},
      {"a ::= \"x\"", "no rule 'root'"},
      {"root ::= x", "line 1, column 10: the rule 'x' is not defined"},
      {"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: the rule 'root' is defined twice"},
      {"root = \"a\"", "line 1, column 6: expected ::="},
      {"root ::= \"a", "the line ends within quotes"},
      {"root ::= [a", "the line ends within quotes or brackets"},
      {"root ::= (\"a\"", "expected )"},
      {"root ::= \"a\" )", "expected the end of the line"},
      {"root ::= \"a\"{3,2}", "bounds are reversed"},
      {"root ::= \"a\"{200000}", "repetitions go up to"},
      {"root ::= <think>", "tokens in <...> are not supported"},
      {"root ::= \"\\q\"", "unknown escape"},
      {"root ::= root \"a\" | \"b\"", "the rule 'root' is left-recursive"},
      {"root ::= a?  root \"a\" | \"b\"\na ::= \"x\"", "the rule 'root' is left-recursive"},
      {"root ::= \"a\" root", "can never end"},
      {"root ::= [z-a]", "the range's ends are reversed"},
      {"root ::= \"\\uD800\"", "the escape is not a character"},
  };
  for (const auto& [source, message] : kCases)
    EXPECT_THAT(refusal(kGrammar, source), testing::HasSubstr(message)) << source;
}

// Each ends in an error, or is small after all, within the limit of time.
TEST(Gbnf, HostileGrammarsEnd) {
  std::string chain = "root ::= r0\n", deep = "root ::= ", wide = "root ::= \"a\"";
  for (int i = 0; i < 20'000; ++i) chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + " \"x\"\n";
  for (int i = 0; i < 100'000; ++i) deep += '(';
  for (int i = 0; i < 200'000; ++i) wide += " | \"a\"";
  std::string doubling = "root ::= a0\n";
  for (int i = 0; i < 60; ++i)
    doubling += "a" + std::to_string(i) + " ::= a" + std::to_string(i + 1) + " a" + std::to_string(i + 1) + "\n";
  const std::string counts = "root ::= ((((([a-z]{1000}){1000}){1000}){1000}){1000}){1000}";
  for (const std::string& source : {chain + "r20000 ::= \"y\"\n", deep, wide, doubling + "a60 ::= \"x\"\n", counts}) {
    const auto start = std::chrono::steady_clock::now();
    refusal(kGrammar, source);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60)) << source.substr(0, 40);
  }
  EXPECT_THAT(refusal(kGrammar, deep), testing::HasSubstr("nested too deeply"));
  // A text of an ambiguous grammar has more parses with each byte: the states are bounded.
  TestGrammar ambiguous(kGrammar, "root ::= \"a\" root root | \"a\" root | \"a\"");
  EXPECT_ANY_THROW(ambiguous.begins(std::string(10'000, 'a')));
}

}  // namespace
}  // namespace gabbro::text::grammar
