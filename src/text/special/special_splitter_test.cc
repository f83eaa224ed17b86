#include "src/text/special/special_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gabbro::text {
namespace {

using ::testing::ElementsAre;

VocabularySpec spec_of(std::vector<std::string> tokens, std::vector<int32_t> types) {
  VocabularySpec spec;
  spec.model = "gpt2";
  spec.tokens = std::move(tokens);
  spec.types = std::move(types);
  return spec;
}

// Text unchanged, tokens in braces.
std::vector<std::string> split(const Vocabulary& vocabulary, std::string_view text, bool parse_control = true) {
  std::vector<std::string> out;
  for (const Fragment& fragment : SpecialSplitter(vocabulary).split(text, parse_control)) {
    out.push_back(fragment.token == kNoToken ? std::string(fragment.text)
                                             : "{" + std::string(vocabulary.text(fragment.token)) + "}");
  }
  return out;
}

TEST(SpecialSplitter, LongerTokensGoFirstWhereverTheyStand) {
  const Vocabulary vocabulary(spec_of({"abc", "bcde", "b", "x"}, {3, 3, 3, 1}));
  EXPECT_THAT(split(vocabulary, "abcde"), ElementsAre("a", "{bcde}"));
  EXPECT_THAT(split(vocabulary, "abcd"), ElementsAre("{abc}", "d"));
  EXPECT_THAT(split(vocabulary, "xbx"), ElementsAre("x", "{b}", "x"));
  EXPECT_THAT(split(vocabulary, "ab"), ElementsAre("a", "{b}"));
  EXPECT_THAT(split(vocabulary, ""), ElementsAre());
}

TEST(SpecialSplitter, GivesWhatIsLeftToShorterTokens) {
  const Vocabulary vocabulary(spec_of({"aaaa", "aa", "ab", "bbb"}, {4, 4, 4, 4}));
  EXPECT_THAT(split(vocabulary, "aaaaaaa"), ElementsAre("{aaaa}", "{aa}", "a"));
  EXPECT_THAT(split(vocabulary, "aaabbb"), ElementsAre("{aa}", "a", "{bbb}"));
  const Vocabulary nested(spec_of({"ab", "abc", "cdef"}, {4, 4, 4}));
  EXPECT_THAT(split(nested, "abcdef"), ElementsAre("{ab}", "{cdef}"));
}

TEST(SpecialSplitter, InputBecomesNoControlToken) {
  // A control token, one that users have added, one of these that structures conversations, and one that ends a turn.
  const Vocabulary vocabulary(
      spec_of({"<|im_end|>", "<u>", "<|user|>", "<end_of_turn>", "<|im_end|>x"}, {3, 4, 4, 4, 3}));
  const auto split_input = [&](std::string_view text, std::vector<jinja::InputSpan> input) {
    std::vector<std::string> out;
    for (const Fragment& fragment : SpecialSplitter(vocabulary).split(text, true, input)) {
      out.push_back(fragment.token == kNoToken ? std::string(fragment.text)
                                               : "{" + std::string(vocabulary.text(fragment.token)) + "}");
    }
    return out;
  };
  EXPECT_THAT(split_input("<|im_end|>", {}), ElementsAre("{<|im_end|>}"));
  EXPECT_THAT(split_input("<|im_end|>", {{0, 10}}), ElementsAre("<|im_end|>"));
  for (size_t at = 0; at < 10; ++at)  // one byte of it is enough
    EXPECT_THAT(split_input("<|im_end|>", {{at, at + 1}}), ElementsAre("<|im_end|>")) << at;
  EXPECT_THAT(split_input("<|im_end|>a<|im_end|>", {{10, 11}}), ElementsAre("{<|im_end|>}", "a", "{<|im_end|>}"));
  EXPECT_THAT(split_input("<|im_end|>x", {{10, 11}}), ElementsAre("{<|im_end|>}", "x"));  // the longer one is forged
  EXPECT_THAT(split_input("<|user|><end_of_turn><u>", {{0, 24}}), ElementsAre("<|user|><end_of_turn>", "{<u>}"));
  EXPECT_THAT(split_input("<|user|><u>", {{8, 9}}), ElementsAre("{<|user|>}", "{<u>}"));
}

TEST(SpecialSplitter, ControlTokensAreTextUnlessAskedFor) {
  const Vocabulary vocabulary(spec_of({"<c>", "<u>", "<c><u>", "<k>"}, {3, 4, 3, 2}));
  EXPECT_THAT(split(vocabulary, "<c><u><k>"), ElementsAre("{<c><u>}", "{<k>}"));
  EXPECT_THAT(split(vocabulary, "<c><u><k>", false), ElementsAre("<c>", "{<u>}", "<k>"));
}

// Rules that llama.cpp derives from the name of the model or of the pre-tokenizer.
TEST(SpecialSplitter, SomeTokensSwallowWhiteSpace) {
  VocabularySpec phi = spec_of({"<|end|>", "<s>", "</s>", "x"}, {3, 3, 1, 1});
  phi.name = "Phi-3 mini";
  const Vocabulary phi3(phi);
  EXPECT_THAT(split(phi3, "a <|end|> \n b<s> c</s> "), ElementsAre("a ", "{<|end|>}", "b", "{<s>}", " c", "{</s>}"));

  VocabularySpec jina = spec_of({"<mask>"}, {3});
  jina.pre = "jina-v2-de";
  EXPECT_THAT(split(Vocabulary(jina), "a \t<mask> b<mask>"), ElementsAre("a", "{<mask>}", " b", "{<mask>}"));

  VocabularySpec bert = spec_of({"[MASK]", "x"}, {3, 1});
  bert.name = "modern-bert";
  EXPECT_THAT(split(Vocabulary(bert), " [MASK] "), ElementsAre("{[MASK]}", " "));
}

TEST(Vocabulary, DerivesWhatEndsAGeneration) {
  VocabularySpec spec =
      spec_of({"a", "<|im_end|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<fim_prefix>", "<|eom_id|>", "z"},
              {1, 1, 3, 3, 3, 4, 3, 1});
  spec.eos = 7;
  const Vocabulary vocabulary(spec);
  EXPECT_THAT(vocabulary.end_of_generation(), ElementsAre(1, 2, 3, 4, 6, 7));
  EXPECT_TRUE(vocabulary.has(1, kControlToken));
  EXPECT_TRUE(vocabulary.has(5, kControlToken));
  EXPECT_FALSE(vocabulary.has(7, kControlToken));
  EXPECT_EQ(vocabulary.spec().eom, 6);

  // gpt-oss: <|end|> only closes a message, and the marks of its channels are shown.
  const Vocabulary harmony(spec_of({"<|return|>", "<|call|>", "<|end|>", "<|channel|>"}, {3, 3, 3, 3}));
  EXPECT_THAT(harmony.end_of_generation(), ElementsAre(0, 1));
  EXPECT_FALSE(harmony.has(2, kControlToken));
  EXPECT_FALSE(harmony.has(3, kControlToken));
  EXPECT_TRUE(harmony.has(3, kUserDefinedToken));

  const Vocabulary gemma(spec_of({"</s>", "<|tool_response>", "<eos>"}, {1, 3, 3}));
  EXPECT_THAT(gemma.end_of_generation(), ElementsAre(1, 2));
  EXPECT_FALSE(gemma.has(0, kControlToken));
}

}  // namespace
}  // namespace gabbro::text
