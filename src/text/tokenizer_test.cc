// Token ids against the reference libraries (tests/reference/make_tokenizer_fixtures.py), and how bad files are
// refused.
#include "src/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/base/mapped_file.h"
#include "src/text/test_vocabulary.h"

namespace gabbro::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ids = std::vector<int32_t>;

constexpr EncodeOptions kPlain = {.add_special = false};

std::string unhex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i < hex.size(); i += 2) out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

// Sanitizers make a text cost ten times as much: there, one in seven.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kTextsPerCheck = 7;
#else
constexpr size_t kTextsPerCheck = 1;
#endif

TEST(Tokenizer, GivesTheIdsOfHuggingFaceForEveryPreTokenizer) {
  const auto fixture = read_fixture("byte_level.json");
  std::map<std::string, Tokenizer> tokenizers;
  size_t read = 0, checked = 0;
  for (const auto& [text, results] : fixture["cases"].get<std::vector<std::pair<std::string, nlohmann::json>>>()) {
    if (read++ % kTextsPerCheck != 0) continue;
    for (const auto& result : results) {
      const auto expected = result[0].get<Ids>();
      for (const auto& name : result[1].get<std::vector<std::string>>()) {
        const auto& tokenizer = tokenizers.try_emplace(name, byte_level_spec(fixture, name)).first->second;
        EXPECT_EQ(tokenizer.encode(text, kPlain), expected) << name << ": " << text;
        ++checked;
      }
    }
  }
  EXPECT_GT(tokenizers.size(), 25U);
  EXPECT_GT(checked, 10000U / kTextsPerCheck);
}

// Marks of input make no difference to text without control tokens, wherever they begin and end: words and merges go
// across.
TEST(Tokenizer, MarkedTextHasTheIdsOfHuggingFace) {
  const auto fixture = read_fixture("byte_level.json");
  const Tokenizer tokenizer(byte_level_spec(fixture, "llama-bpe"));
  size_t checked = 0;
  for (const auto& [text, results] : fixture["cases"].get<std::vector<std::pair<std::string, nlohmann::json>>>()) {
    for (const auto& result : results) {
      const auto names = result[1].get<std::vector<std::string>>();
      if (std::find(names.begin(), names.end(), "llama-bpe") == names.end() || text.empty()) continue;
      const bool harmless =
          tokenizer.encode(text, kPlain) == tokenizer.encode(text, {.add_special = false, .parse_special = false});
      if (!harmless) continue;
      for (const size_t period : {1, 2, 5}) {
        jinja::MarkedText marked;
        for (size_t at = 0; at < text.size(); at += period) {
          const std::string piece = text.substr(at, period);
          marked.append(at / period % 2 == 0 ? jinja::MarkedText::input(piece) : jinja::MarkedText(piece));
        }
        EXPECT_EQ(tokenizer.encode_marked(marked, kPlain), result[0].get<Ids>()) << text;
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 300U);
}

TEST(Tokenizer, InputNeverBecomesAControlToken) {
  const auto fixture = read_fixture("byte_level.json");
  for (const VocabularySpec& spec :
       {byte_level_spec(fixture, "llama-bpe"), sentencepiece_spec(), raw_spec(), letters_spec()}) {
    const Tokenizer tokenizer(spec);
    for (int32_t id = 0; id < tokenizer.size(); ++id) {
      if (!tokenizer.vocabulary().has(id, kControlToken)) continue;
      const std::string text = "a" + std::string(tokenizer.vocabulary().text(id)) + "a";
      const Ids ids = tokenizer.encode_marked(jinja::MarkedText::input(text), kPlain);
      for (const int32_t made : ids) EXPECT_FALSE(tokenizer.vocabulary().has(made, kControlToken)) << text;
      jinja::MarkedText written("a");  // the same text from a template
      written.append(std::string(tokenizer.vocabulary().text(id)));
      const Ids forged = tokenizer.encode_marked(written, kPlain);
      EXPECT_NE(std::find(forged.begin(), forged.end(), id), forged.end()) << text;
    }
  }
}

TEST(Tokenizer, GivesTheIdsOfLlamaCppWhereHuggingFaceCannotTell) {
  const auto fixture = read_fixture("byte_level.json");
  for (const auto& [name, cases] : fixture["llama"].items()) {
    const Tokenizer tokenizer(byte_level_spec(fixture, name));
    for (const auto& test : cases)
      EXPECT_EQ(tokenizer.encode(test[0].get<std::string>(), kPlain), test[1].get<Ids>()) << name << ": " << test[0];
  }
  for (const auto& [name, cases] : fixture["broken"].items()) {
    const Tokenizer tokenizer(byte_level_spec(fixture, name));
    EXPECT_GT(cases.size(), 50U);
    for (const auto& test : cases)
      EXPECT_EQ(tokenizer.encode(unhex(test[0]), kPlain), test[1].get<Ids>()) << name << ": " << test[0];
  }
}

// How SentencePiece spells a space, U+2581, comes back as a space, also where the text had it itself.
std::string with_plain_spaces(std::string text) {
  constexpr std::string_view kSpace = "\xE2\x96\x81";
  for (size_t at = 0; (at = text.find(kSpace, at)) != std::string::npos;) text.replace(at, kSpace.size(), " ");
  return text;
}

TEST(Tokenizer, GivesTheIdsOfSentencePiece) {
  const Tokenizer tokenizer(sentencepiece_spec());
  const auto fixture = read_fixture("sentencepiece.json");
  for (const auto& test : fixture["cases"]) {
    const auto text = test[0].get<std::string>();
    const Ids ids = tokenizer.encode(text, kPlain);
    EXPECT_EQ(ids, test[1].get<Ids>()) << text;
    EXPECT_EQ(tokenizer.decode(ids), with_plain_spaces(text));
  }
}

TEST(Tokenizer, GivesTheIdsOfHuggingFaceForCharactersWithByteTokens) {
  const Tokenizer tokenizer(raw_spec());
  const auto fixture = read_fixture("raw_bpe.json");
  for (const auto& test : fixture["cases"]) {
    const auto text = test[0].get<std::string>();
    const Ids ids = tokenizer.encode(text, kPlain);
    EXPECT_EQ(ids, test[1].get<Ids>()) << text;
    EXPECT_EQ(tokenizer.decode(ids), with_plain_spaces(text));
  }
}

TEST(Tokenizer, DecodesWhatItEncoded) {
  const auto fixture = read_fixture("byte_level.json");
  const Tokenizer tokenizer(byte_level_spec(fixture, "gpt-2"));
  for (const auto& test : fixture["cases"]) {
    const auto text = test[0].get<std::string>();
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text), {.show_control = true}), text);
  }
}

TEST(Tokenizer, ParsesControlTokensOnlyWhenAsked) {
  const auto fixture = read_fixture("byte_level.json");
  const Tokenizer tokenizer(byte_level_spec(fixture, "gpt-2"));
  const int32_t end = tokenizer.find("<|im_end|>"), tool = tokenizer.find("<tool>");
  EXPECT_THAT(tokenizer.encode("<|im_end|><tool>", kPlain), ElementsAre(end, tool));
  const Ids outside = tokenizer.encode("<|im_end|><tool>", {.add_special = false, .parse_special = false});
  EXPECT_THAT(outside, ::testing::Not(::testing::Contains(end)));
  EXPECT_EQ(outside.back(), tool);
  EXPECT_EQ(tokenizer.decode(outside), "<|im_end|><tool>");
  EXPECT_EQ(tokenizer.decode(Ids{end, tool}), "<tool>");
  EXPECT_EQ(tokenizer.decode(Ids{end}, {.show_control = true}), "<|im_end|>");
  EXPECT_EQ(tokenizer.piece(end), "<|im_end|>");
  EXPECT_TRUE(tokenizer.is_control(end));
  EXPECT_FALSE(tokenizer.is_control(tool));
  EXPECT_TRUE(tokenizer.is_end_of_generation(end));
  EXPECT_FALSE(tokenizer.is_end_of_generation(tool));
  EXPECT_EQ(tokenizer.eot(), end);  // by its name: the file does not say
}

TEST(Tokenizer, AddsAndRemovesBosAndEos) {
  VocabularySpec spec = letters_spec();
  spec.add_eos = true;
  const Tokenizer tokenizer(spec);
  const Ids ids = tokenizer.encode("ab");
  EXPECT_EQ(ids.front(), tokenizer.bos());
  EXPECT_EQ(ids.back(), tokenizer.eos());
  EXPECT_EQ(tokenizer.decode(ids), "ab");
  EXPECT_EQ(tokenizer.decode(ids, {.remove_special = false, .show_control = true}), "<s> ab</s>");
  EXPECT_THAT(tokenizer.encode(""), ElementsAre(tokenizer.bos(), tokenizer.eos()));
  EXPECT_THAT(tokenizer.encode("", kPlain), IsEmpty());
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_TRUE(tokenizer.adds_eos());
}

TEST(Tokenizer, SentencePieceWithoutByteTokensSaysUnknown) {
  const Tokenizer tokenizer(letters_spec());
  EXPECT_THAT(tokenizer.encode("a\xE2\x82\xAC", kPlain), ElementsAre(tokenizer.find("▁a"), tokenizer.unknown()));
  EXPECT_EQ(tokenizer.unknown(), 0);
  EXPECT_EQ(tokenizer.padding(), kNoToken);
}

TEST(Tokenizer, BreaksTiesOfScoresFromTheLeft) {
  VocabularySpec spec = letters_spec();
  spec.add_space_prefix = false;
  const Tokenizer tokenizer(spec);
  EXPECT_THAT(tokenizer.encode("aaa", kPlain), ElementsAre(tokenizer.find("aa"), tokenizer.find("a")));
}

// As in llama.cpp: a token may be a merge's left part without being in the vocabulary, and bytes without a token
// vanish.
TEST(Tokenizer, LeavesOutBytesThatTheVocabularyLacks) {
  VocabularySpec spec;
  spec.model = "gpt2";
  spec.pre = "gpt-2";
  spec.tokens = {"a", "b", "c", "abc"};
  spec.merges = {"a b", "ab c"};
  const Tokenizer tokenizer(spec);
  EXPECT_THAT(tokenizer.encode("abc"), ElementsAre(3));
  EXPECT_THAT(tokenizer.encode("abx!ab"), ElementsAre(0, 1, 0, 1));
}

TEST(Tokenizer, TakesTheFirstOfEqualTokens) {
  VocabularySpec spec;
  spec.model = "gpt2";
  spec.pre = "gpt-2";
  spec.tokens = {"a", "b", "ab", "ab", ""};
  spec.merges = {"a b"};
  const Tokenizer tokenizer(spec);
  EXPECT_THAT(tokenizer.encode("ab"), ElementsAre(2));
  EXPECT_EQ(tokenizer.decode(Ids{3, 4, 0}), "aba");
}

TEST(Tokenizer, SpellsTokensThatAreNotInTheAlphabetOfBytesAsTheyAre) {
  VocabularySpec spec;
  spec.model = "gpt2";
  spec.tokens = {"a", "Ġb", "日本", "unused", "<0x41>", "<0x4g>"};
  spec.types = {1, 1, 1, 5, 6, 6};
  spec.merges = {"a b"};
  const Tokenizer tokenizer(spec);
  EXPECT_EQ(tokenizer.decode(Ids{0, 1, 2, 3, 4, 5}), "a b日本A");
}

TEST(Tokenizer, LongLinesTakeTimeLinearOrAlmostSo) {
  const size_t size = size_t{1} << 18;
  const std::string line(size, 'a'), spaces(size, ' '), digits(size, '7');
  const auto fixture = read_fixture("byte_level.json");
  for (const char* name : {"gpt-2", "tiny_aya", "superbpe", "afmoe", "exaone-moe", "kimi-k2"}) {
    const Tokenizer tokenizer(byte_level_spec(fixture, name));
    for (const std::string& text : {line, spaces, digits}) EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
  const Tokenizer sentencepiece(sentencepiece_spec());
  EXPECT_EQ(sentencepiece.decode(sentencepiece.encode(line)), line);
}

std::string complaint(const std::function<void(VocabularySpec&)>& spoil, VocabularySpec spec = letters_spec()) {
  spoil(spec);
  try {
    const Tokenizer tokenizer(std::move(spec));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.what();
  }
  return "none";
}

TEST(Tokenizer, NamesTheFieldThatIsWrong) {
  const auto fixture = read_fixture("byte_level.json");
  EXPECT_EQ(complaint([](auto&) {}), "none");
  EXPECT_THAT(complaint([](auto& s) { s.model = "wordlevel"; }),
              HasSubstr("tokenizer.ggml.model: tokenizer 'wordlevel'"));
  EXPECT_THAT(complaint([](auto& s) { s.tokens.clear(); }),
              HasSubstr("tokenizer.ggml.tokens: the vocabulary is empty"));
  EXPECT_THAT(complaint([](auto& s) { s.tokens[3].assign(100000, 'x'); }), HasSubstr("tokenizer.ggml.tokens[3]"));
  EXPECT_THAT(complaint([](auto& s) { s.scores.pop_back(); }),
              HasSubstr("tokenizer.ggml.scores: 8 entries for 9 tokens"));
  EXPECT_THAT(complaint([](auto& s) { s.scores[2] = NAN; }), HasSubstr("tokenizer.ggml.scores[2]"));
  EXPECT_THAT(complaint([](auto& s) { s.types.resize(2); }), HasSubstr("tokenizer.ggml.token_type"));
  const VocabularySpec bytes = byte_level_spec(fixture, "gpt-2");
  EXPECT_THAT(complaint([](auto& s) { s.pre = "nonsense"; }, bytes),
              HasSubstr("tokenizer.ggml.pre: pre-tokenizer 'nonsense'"));
  EXPECT_THAT(complaint([](auto& s) { s.merges.clear(); }, bytes), HasSubstr("tokenizer.ggml.merges: missing"));
  for (const char* merge : {"", "a", " ", "a ", " a"}) {
    EXPECT_THAT(complaint([&](auto& s) { s.merges[1] = merge; }, bytes), HasSubstr("tokenizer.ggml.merges[1]"))
        << merge;
  }
  EXPECT_THAT(complaint([](auto& s) { s.bos = kNoToken, s.add_bos = true; }, bytes),
              HasSubstr("tokenizer.ggml.add_bos_token"));
  EXPECT_THAT(complaint([](auto& s) { s.eos = kNoToken, s.add_eos = true; }, bytes),
              HasSubstr("tokenizer.ggml.add_eos_token"));
}

// As llama.cpp does: files are in use whose padding token, for one, is not there.
TEST(Tokenizer, DoesNotUseSpecialTokensOutsideTheVocabulary) {
  VocabularySpec spec = letters_spec();
  spec.bos = 9;  // the model's kind has 1 by default
  spec.padding = 99;
  spec.fim_sep = -2;
  const Tokenizer tokenizer(std::move(spec));
  EXPECT_EQ(tokenizer.bos(), 1);
  EXPECT_EQ(tokenizer.padding(), kNoToken);
  EXPECT_THAT(tokenizer.warnings(),
              ElementsAre("tokenizer.ggml.bos_token_id: token 9 is outside the vocabulary of 9 tokens: not used",
                          "tokenizer.ggml.padding_token_id: token 99 is outside the vocabulary of 9 tokens: not used",
                          "tokenizer.ggml.fim_sep_token_id: token -2 is outside the vocabulary of 9 tokens: not used"));
  EXPECT_THAT(Tokenizer(letters_spec()).warnings(), IsEmpty());
}

TEST(Tokenizer, RefusesIdsOutsideTheVocabulary) {
  const Tokenizer tokenizer(letters_spec());
  EXPECT_THROW(tokenizer.piece(-1), Error);
  EXPECT_THROW(tokenizer.piece(tokenizer.size()), Error);
  EXPECT_THROW(tokenizer.decode(Ids{0, 1000}), Error);
  EXPECT_THROW(tokenizer.is_control(9), Error);
  EXPECT_FALSE(tokenizer.is_end_of_generation(-1));
}

}  // namespace
}  // namespace gabbro::text
