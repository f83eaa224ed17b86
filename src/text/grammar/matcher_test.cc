// Masks of tokens: compared with trying each token, and the state of a text.
#include "src/text/grammar/matcher.h"

#include <gtest/gtest.h>

#include <random>

#include "src/base/error.h"
#include "src/text/grammar/test_grammar.h"
#include "src/text/test_vocabulary.h"
#include "src/text/tokenizer.h"

namespace gabbro::text::grammar {
namespace {

// Bytes, pieces of JSON, plain words of many lengths, parts of characters, and two equal tokens.
std::vector<std::string> test_pieces() {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  for (const char* const one :
       {"{\"", "\": ", "\",",  ", \"",     "\"}",   "true",       "null", "\\n", "\\u00", " a",   "name", "12",
        "1.5", "é",    "世界", "\xE4\xB8", "\x96x", "name\": \"", "[[",   "]]}", "\"\"",  "a\"b", "{}"})
    pieces.emplace_back(one);
  std::mt19937 random(3);
  for (int i = 0; i < 400; ++i) {
    std::string word;
    for (size_t length = 1 + random() % 40; length > 0; --length) word += static_cast<char>('a' + random() % 26);
    pieces.push_back(word);
  }
  pieces.push_back("name");
  pieces.emplace_back();  // a control token
  return pieces;
}

TEST(MaskMaker, AllowsExactlyTheTokensThatMayFollow) {
  const auto tokens = std::make_shared<const TokenTrie>(test_pieces());
  const std::pair<OutputFormat::Kind, const char*> kGrammars[] = {
      {OutputFormat::Kind::kJsonObject, ""},
      {OutputFormat::Kind::kJsonSchema,
       R"({"type": "object", "properties": {"name": {"type": "string"}, "a": {"type": "array", "items": {"type": "number"}},
           "s": {"type": "string", "maxLength": 25}, "p": {"type": "string", "pattern": "^[a-m]*$"}}, "required": ["name", "s"]})"},
      {OutputFormat::Kind::kRegex, "[^x]*(name|世界)[a-z]{0,12}"},
      {OutputFormat::Kind::kGrammar, "root ::= \"{\" root \"}\" root | \"a\" [^{}]*"},
  };
  std::mt19937 random(5);
  for (const auto& [kind, source] : kGrammars) {
    MaskMaker maker(compile_format({kind, source}), tokens);
    Automaton& automaton = maker.automaton();
    for (int text = 0; text < 20; ++text) {
      Automaton::State state = automaton.start();
      for (int step = 0; step < 30; ++step) {
        const std::shared_ptr<const TokenMask> mask = maker.mask(state);
        EXPECT_EQ(*mask, maker.walk(state));
        std::vector<int32_t> allowed;
        for (int32_t token = 0; static_cast<size_t>(token) < tokens->size(); ++token) {
          const std::string& piece = tokens->piece(token);
          const bool may_follow = !piece.empty() && automaton.next(state, piece) != Automaton::kDead;
          ASSERT_EQ(mask->has(token), may_follow) << source << " step " << step << " '" << piece << "'";
          if (may_follow) allowed.push_back(token);
        }
        if (allowed.empty()) {
          EXPECT_TRUE(automaton.is_complete(state));
          break;
        }
        state = automaton.next(state, tokens->piece(allowed[random() % allowed.size()]));
      }
    }
  }
}

TEST(Matcher, GoesOnAndComesBack) {
  GrammarSet set(std::make_shared<const TokenTrie>(test_pieces()));
  const OutputFormat format{OutputFormat::Kind::kJsonSchema,
                            R"({"type": "object", "properties": {"name": {"const": "a"}},
    "required": ["name"], "additionalProperties": false})"};
  Matcher matcher = set.matcher(format);
  EXPECT_EQ(matcher.forced_text(100), "{");
  EXPECT_TRUE(matcher.accept('{'));
  EXPECT_FALSE(matcher.accept('x'));
  EXPECT_FALSE(matcher.accept(-1));
  EXPECT_FALSE(matcher.accept(1 << 20));
  const Matcher before = matcher;
  const std::vector<int32_t> tokens{'"', 'n', 'a', 'm', 'e', '"', ':', '"', 'a', '"', '}', '}'};
  EXPECT_EQ(matcher.allowed(tokens), 11u);
  EXPECT_TRUE(matcher.accept('"'));
  EXPECT_EQ(matcher.forced_text(100), "name\"");
  EXPECT_EQ(matcher.forced_text(3), "nam");
  for (const int32_t token : std::span(tokens).subspan(1, 9)) EXPECT_TRUE(matcher.accept(token));
  EXPECT_FALSE(matcher.may_end());
  EXPECT_TRUE(matcher.accept('}'));
  EXPECT_TRUE(matcher.may_end());
  EXPECT_TRUE(matcher.is_complete());
  EXPECT_EQ(matcher.forced_text(100), "");
  Matcher again = before;
  EXPECT_FALSE(again.may_end());
  EXPECT_TRUE(again.accept('"'));
}

TEST(Matcher, BeginsAfterAText) {
  Automaton automaton(compile_format({OutputFormat::Kind::kRegex, "[0-9]+", "</think>"}));
  const auto accepts = [&](std::string_view text) {
    const Automaton::State end = automaton.next(automaton.start(), text);
    return end != Automaton::kDead && automaton.accepts(end);
  };
  EXPECT_TRUE(accepts("so <</think </thin</think>\n\n12"));
  EXPECT_TRUE(accepts("</think>1"));
  EXPECT_FALSE(accepts("12"));
  EXPECT_FALSE(accepts("</think>a</think>12"));
}

// A matcher whose tables are full goes on with others, and nothing changes.
TEST(Automaton, StatesMoveToAnotherAutomaton) {
  const auto program = compile_format({OutputFormat::Kind::kJsonObject, ""});
  Automaton from(program), to(program);
  to.next(to.start(), R"({"other": [[[)");
  const std::string text = R"({"a": [{"b": [1, "x"], "c": {"d": [true]}}], "e": {"f": {}}})";
  Automaton::State state = from.start();
  for (size_t i = 0; i <= text.size(); ++i) {
    const Automaton::State end = to.next(from.transfer(state, to), text.substr(i));
    EXPECT_TRUE(end != Automaton::kDead && to.is_complete(end)) << i;
    if (i < text.size()) state = from.next(state, text.substr(i, 1));
  }
}

TEST(GrammarSet, RemembersGrammarsAndNotErrors) {
  GrammarSet set(std::make_shared<const TokenTrie>(test_pieces()));
  const OutputFormat bad{OutputFormat::Kind::kRegex, "("}, good{OutputFormat::Kind::kRegex, "a+"};
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(set.matcher(bad), Error);
    EXPECT_TRUE(set.matcher(good).accept('a'));
  }
  for (int i = 0; i < 200; ++i)
    EXPECT_TRUE(set.matcher({OutputFormat::Kind::kRegex, "a{" + std::to_string(i + 1) + "}"}).accept('a'));
}

TEST(GrammarSet, ControlTokensHaveBytesWhereTheFormatNamesThem) {
  const Tokenizer tokenizer{letters_spec()};
  constexpr int32_t kControl = 1, kA = 4;  // "<s>", "a"
  OutputFormat format{.kind = OutputFormat::Kind::kRegex, .source = "<s>a+"};
  EXPECT_FALSE(tokenizer.grammars().matcher(format).accept(kControl));
  format.controls = {"<s>", "<nothing>"};
  for (int i = 0; i < 2; ++i) {
    Matcher matcher = tokenizer.grammars().matcher(format);
    EXPECT_TRUE(matcher.mask()->has(kControl));
    EXPECT_FALSE(matcher.mask()->has(kA));
    EXPECT_TRUE(matcher.accept(kControl) && matcher.accept(kA) && matcher.may_end());
    EXPECT_FALSE(matcher.mask()->has(kControl));
  }
}

TEST(TokenTrie, ControlTokensHaveNoText) {
  const Tokenizer tokenizer{letters_spec()};
  const TokenTrie trie = make_token_trie(tokenizer);
  EXPECT_TRUE(trie.piece(0).empty());
  EXPECT_TRUE(trie.piece(2).empty());
  EXPECT_EQ(trie.piece(7), " a");
  EXPECT_TRUE(tokenizer.grammars().matcher({OutputFormat::Kind::kRegex, " ?a+b"}).accept(7));
}

}  // namespace
}  // namespace gabbro::text::grammar
