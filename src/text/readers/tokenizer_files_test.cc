// Tokenizers of folders against `tokenizers` and `sentencepiece` (tests/reference/make_tokenizer_folder_fixtures.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "src/base/error.h"
#include "src/text/base64.h"
#include "src/text/readers/gguf_vocabulary.h"
#include "src/text/readers/sentencepiece_file.h"
#include "src/text/test_vocabulary.h"
#include "src/text/tokenizer.h"

namespace gabbro::text {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using Ids = std::vector<int32_t>;
using Document = nlohmann::json;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kEachText = 5;  // sanitizers make a text cost ten times as much
#else
constexpr size_t kEachText = 1;
#endif

std::vector<std::string> folder_names() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(GABBRO_SOURCE_DIR) + "/tests/data/text/folders")) {
    const std::string name = entry.path().stem().string();
    if (name != "texts") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i < hex.size(); i += 2) out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

TokenizerFiles files_of(const Document& fixture) {
  TokenizerFiles files{.name = "folder"};
  const auto& list = fixture["files"];
  if (list.contains("tokenizer.json")) files.tokenizer_json = list["tokenizer.json"].get<std::string>();
  if (list.contains("tokenizer.model"))
    files.sentencepiece_model = decode_base64(list["tokenizer.model"].get<std::string>(), "fixture");
  if (list.contains("tokenizer_config.json")) files.tokenizer_config = list["tokenizer_config.json"].get<std::string>();
  return files;
}

Tokenizer open_fixture(const Document& fixture) { return Tokenizer(read_tokenizer_files(files_of(fixture))); }

// U+FFFD for each broken part, as Python decodes.
std::string lossy(const std::string& bytes) {
  Utf8Stream stream;
  std::string out = stream.push(bytes);
  return out + stream.flush();
}

class TokenizerFolder : public ::testing::TestWithParam<std::string> {
 protected:
  Document fixture = read_fixture("folders/" + GetParam() + ".json");
  Tokenizer tokenizer = open_fixture(fixture);
  bool parses_special = fixture["parses_special"].get<bool>();
  EncodeOptions options{.add_special = parses_special, .parse_special = parses_special};
};

TEST_P(TokenizerFolder, GivesTheIdsAndTextsOfTheReference) {
  const auto texts = read_fixture("folders/texts.json").get<std::vector<std::string>>();
  ASSERT_GT(texts.size(), 150U);
  for (size_t i = 0; i < texts.size(); i += kEachText) {
    const std::string text = from_hex(texts[i]);
    const Ids ids = tokenizer.encode(text, options);
    EXPECT_EQ(ids, fixture["ids"][i].get<Ids>()) << text;
    const auto shown = fixture["texts"][i].get<std::string>();
    EXPECT_EQ(lossy(tokenizer.decode(ids, {.remove_special = false})), shown) << text;
    TokenStream stream(tokenizer);
    std::string streamed;
    for (const int32_t id : ids) streamed += stream.push(id);
    EXPECT_EQ(streamed + stream.flush(), shown) << text;
    if (!parses_special) continue;
    const Document& control = fixture["with_control"][i];
    EXPECT_EQ(lossy(tokenizer.decode(ids, {.remove_special = false, .show_control = true})),
              control.is_null() ? shown : control.get<std::string>())
        << text;
  }
}

TEST_P(TokenizerFolder, NeverMakesControlTokensOfInput) {
  size_t control_tokens = 0;
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    if (!tokenizer.vocabulary().has(id, kControlToken) || tokenizer.vocabulary().text(id).empty()) continue;
    ++control_tokens;
    const std::string text = "a " + std::string(tokenizer.vocabulary().text(id)) + " a";
    for (const std::string& input : {text, std::string(tokenizer.vocabulary().text(id))}) {
      for (const int32_t made : tokenizer.encode_marked(jinja::MarkedText::input(input), {.add_special = false})) {
        EXPECT_TRUE(!tokenizer.vocabulary().has(made, kControlToken) || made == tokenizer.unknown()) << input;
      }
    }
    jinja::MarkedText written("a ");  // the same text from a template
    written.append(std::string(tokenizer.vocabulary().text(id)));
    EXPECT_THAT(tokenizer.encode_marked(written, {.add_special = false}), Contains(id)) << text;
  }
  EXPECT_GT(control_tokens, 0U);
}

TEST_P(TokenizerFolder, AddsItsEndsOnlyWhenAsked) {
  const Ids with = tokenizer.encode("fox"), without = tokenizer.encode("fox", {.add_special = false});
  EXPECT_EQ(tokenizer.adds_bos() && with != without, tokenizer.adds_bos());
  EXPECT_TRUE(!tokenizer.adds_bos() || with.front() == tokenizer.bos());
  EXPECT_TRUE(!tokenizer.adds_eos() || with.back() == tokenizer.eos());
  EXPECT_EQ(tokenizer.decode(with, {.show_control = true}),
            tokenizer.decode(without, {.remove_special = false, .show_control = true}));
}

TEST_P(TokenizerFolder, LongTextsTakeTimeLinearOrAlmostSo) {
  const size_t size = size_t{1} << 16;
  for (const char* part : {"a", " ", "7", "\n", "é", "word "}) {
    std::string text;
    while (text.size() < size) text += part;
    const Ids ids = tokenizer.encode(text, options);
    EXPECT_LE(ids.size(), text.size() + 4);
    (void)tokenizer.decode(ids);
  }
}

TEST_P(TokenizerFolder, ThreadsMakeNoDifference) {
  const auto texts = read_fixture("folders/texts.json").get<std::vector<std::string>>();
  std::string text;
  for (size_t i = 0; text.size() < (size_t{3} << 17); ++i) text += from_hex(texts[i * 7 % texts.size()]);
  // Stretches in which a chunk finds no place to begin.
  for (const char* part : {"", "x"}) {
    std::string whole = text;
    for (size_t i = 0; i < (size_t{1} << 17) && *part != '\0'; ++i) whole += part;
    whole += "end of it";
    const Ids one = tokenizer.encode(whole, {.parse_special = false, .threads = 1});
    for (const size_t threads : {2, 4})
      EXPECT_EQ(tokenizer.encode(whole, {.parse_special = false, .threads = threads}), one) << part << threads;
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, TokenizerFolder, ::testing::ValuesIn(folder_names()), [](const auto& fixture) {
  std::string name = fixture.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(TokenizerFiles, PiecesAreWhatTokensAddToAText) {
  const Tokenizer bytes = open_fixture(read_fixture("folders/llama3.json"));
  EXPECT_EQ(bytes.piece(bytes.find("Ġ")), " ");
  EXPECT_EQ(bytes.piece(bytes.eos()), "<|eot_id|>");
  EXPECT_TRUE(bytes.is_control(bytes.eos()));
  EXPECT_TRUE(bytes.is_end_of_generation(bytes.eos()));
  const Tokenizer pieces = open_fixture(read_fixture("folders/llama2.json"));
  EXPECT_EQ(pieces.piece(pieces.find("▁")), " ");
  EXPECT_EQ(pieces.piece(pieces.find("<0xE2>")), "\xE2");
  const Tokenizer words = open_fixture(read_fixture("folders/bert-uncased.json"));
  EXPECT_EQ(words.piece(words.find("##s")), "s");
}

TEST(TokenizerFiles, StreamsGoOnAfterText) {
  const Tokenizer tokenizer = open_fixture(read_fixture("folders/llama2.json"));
  const Ids ids = tokenizer.encode("fox fox", {.add_special = false});
  TokenStream first(tokenizer), later(tokenizer, {.continues = true});
  std::string from_start, within;
  for (const int32_t id : ids) {
    from_start += first.push(id);
    within += later.push(id);
  }
  EXPECT_EQ(from_start + first.flush(), "fox fox");
  EXPECT_EQ(within + later.flush(), " fox fox");
}

TEST(TokenizerFiles, TakesEndsOfGenerationFromOtherFiles) {
  TokenizerFiles files = files_of(read_fixture("folders/bert-cased.json"));
  files.end_of_generation = {7, -3, 1 << 30};
  const Tokenizer tokenizer(read_tokenizer_files(files));
  EXPECT_TRUE(tokenizer.is_end_of_generation(7));
  EXPECT_FALSE(tokenizer.is_end_of_generation(8));
}

void expect_ids_of(const std::string& name, const Tokenizer& tokenizer, EncodeOptions options) {
  const Document fixture = read_fixture("folders/" + name + ".json");
  const auto texts = read_fixture("folders/texts.json").get<std::vector<std::string>>();
  for (size_t i = 0; i < texts.size(); i += kEachText) {
    const Ids ids = tokenizer.encode(from_hex(texts[i]), options);
    EXPECT_EQ(ids, fixture["ids"][i].get<Ids>()) << from_hex(texts[i]);
    EXPECT_EQ(lossy(tokenizer.decode(ids, {.remove_special = false})), fixture["texts"][i].get<std::string>());
  }
}

// GGUF spells WordPiece otherwise than BERT's vocabularies.
TEST(TokenizerFiles, WordPiecesOfGgufAreThoseOfBert) {
  for (const std::string name : {"bert-uncased", "bert-cased"}) {
    const Document fixture = read_fixture("folders/" + name + ".json");
    const Document vocabulary =
        Document::parse(fixture["files"]["tokenizer.json"].get<std::string>())["model"]["vocab"];
    VocabularySpec spec;
    spec.model = "bert";
    spec.tokens.resize(vocabulary.size());
    spec.types.assign(vocabulary.size(), 1);
    for (const auto& [text, id] : vocabulary.items()) {
      const bool special = text.starts_with('[') && text.ends_with(']') && text.size() > 2;
      if (special) spec.types[id.get<size_t>()] = 3;
      spec.tokens[id.get<size_t>()] = special ? text : text.starts_with("##") ? text.substr(2) : "\xE2\x96\x81" + text;
    }
    expect_ids_of(name, Tokenizer(std::move(spec)), {});
  }
}

TEST(TokenizerFiles, UnigramsOfGgufAreThoseOfSentencePiece) {
  const Document fixture = read_fixture("folders/sp-t5.json");
  const SentencePieceFile file = read_sentencepiece_file(*files_of(fixture).sentencepiece_model, "fixture");
  VocabularySpec spec;
  spec.model = "t5";
  for (const SentencePieceFile::Piece& piece : file.pieces) {
    spec.tokens.push_back(piece.text);
    spec.scores.push_back(piece.score);
    spec.types.push_back(piece.type);
  }
  spec.eos = file.eos;
  spec.precompiled_charsmap = file.charsmap;
  const Tokenizer tokenizer(spec);
  EXPECT_TRUE(tokenizer.adds_eos());
  EXPECT_FALSE(tokenizer.adds_bos());
  expect_ids_of("sp-t5", tokenizer, {.add_special = false, .parse_special = false});
  spec.scores.pop_back();
  EXPECT_THROW(Tokenizer{spec}, Error);
}

// The complaint about a tokenizer.json that `spoil` has changed.
std::string complaint(const std::string& name, const std::function<void(Document&)>& spoil) {
  TokenizerFiles files = files_of(read_fixture("folders/" + name + ".json"));
  Document document = Document::parse(*files.tokenizer_json);
  spoil(document);
  files.tokenizer_json = document.dump();
  try {
    const Tokenizer tokenizer(read_tokenizer_files(files));
    return "none";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.what();
  }
}

// The vocabulary for a GGUF file gives the same tokens where it says so, and nearly the same else.
TEST(TokenizerFiles, AreWrittenAsGgufDescribesThem) {
  const auto texts = read_fixture("folders/texts.json").get<std::vector<std::string>>();
  size_t written_ones = 0;
  for (const char* name : {"llama3", "qwen2", "phi", "deepseek", "sp-llama2", "llama2", "bert-uncased", "sp-t5"}) {
    SCOPED_TRACE(name);
    const Document fixture = read_fixture(std::string("folders/") + name + ".json");
    const auto written = gguf_vocabulary(files_of(fixture), 0);
    ASSERT_TRUE(written);
    ++written_ones;
    const Tokenizer original = open_fixture(fixture), converted(written->spec);
    size_t different = 0;
    for (const std::string& hex : texts)
      different += original.encode(from_hex(hex)) == converted.encode(from_hex(hex)) ? 0 : 1;
    EXPECT_LE(different, texts.size() / 4);  // added tokens with flags, and normalizers
  }
  EXPECT_EQ(written_ones, 8U);
}

TEST(TokenizerFiles, NamesThePathThatIsWrong) {
  const std::string name = "llama3";
  EXPECT_EQ(complaint(name, [](auto&) {}), "none");
  EXPECT_THAT(complaint(name, [](auto& d) { d["model"]["type"] = "Markov"; }),
              HasSubstr("folder/tokenizer.json.model.type: model 'Markov'"));
  EXPECT_THAT(complaint(name, [](auto& d) { d["model"].erase("vocab"); }), HasSubstr("model.vocab: is missing"));
  EXPECT_THAT(complaint(name, [](auto& d) { d["model"]["vocab"]["x"] = -1; }), HasSubstr("model.vocab: '-1'"));
  EXPECT_THAT(complaint(name, [](auto& d) { d["model"]["vocab"]["x"] = 1e9; }), HasSubstr("model.vocab"));
  EXPECT_THAT(complaint(name, [](auto& d) { d["model"]["merges"][3] = {"a"}; }), HasSubstr("model.merges[3]"));
  EXPECT_THAT(complaint(name,
                        [](auto& d) {
                          d["model"]["merges"][3] = {"a", "nowhere"};
                        }),
              HasSubstr("model.merges[3]: 'a' and 'nowhere'"));
  EXPECT_THAT(complaint(name, [](auto& d) { d["model"]["dropout"] = 0.1; }), HasSubstr("model.dropout"));
  EXPECT_THAT(complaint(name,
                        [](auto& d) {
                          d["normalizer"] = {{"type", "ROT13"}};
                        }),
              HasSubstr("normalizer.type: normalizer 'ROT13'"));
  EXPECT_THAT(complaint(name, [](auto& d) { d["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Eaten"; }),
              HasSubstr("pre_tokenizer.pretokenizers[0].behavior: behavior 'Eaten'"));
  EXPECT_THAT(complaint(name, [](auto& d) { d["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a"; }),
              HasSubstr("pattern.Regex: regular expression '(a'"));
  EXPECT_THAT(complaint(name,
                        [](auto& d) {
                          d["decoder"] = {{"type", "Strip"}, {"content", "ab"}};
                        }),
              HasSubstr("decoder.content: is not one character"));
  EXPECT_THAT(complaint(name, [](auto& d) { d["added_tokens"][0]["content"] = 7; }),
              HasSubstr("added_tokens[0].content: is of type number"));
  EXPECT_THAT(complaint(name, [](auto& d) { d["version"] = "2.0"; }), HasSubstr("version: version '2.0'"));
  EXPECT_THAT(complaint("bert-cased", [](auto& d) { d["post_processor"]["cls"][1] = 99999; }),
              HasSubstr("post_processor.cls[1]: 99999"));
  EXPECT_THAT(complaint("t5", [](auto& d) { d["model"]["unk_id"] = 99999; }), HasSubstr("model.unk_id: 99999"));
  EXPECT_THAT(complaint("t5", [](auto& d) { d["model"]["vocab"][4] = "x"; }), HasSubstr("model.vocab[4]"));
  EXPECT_THAT(complaint("t5", [](auto& d) { d["normalizer"]["precompiled_charsmap"] = "AAAA////"; }),
              HasSubstr("precompiled_charsmap"));
  EXPECT_THAT(complaint("t5",
                        [](auto& d) {
                          Document nested = Document::array();
                          for (int i = 0; i < 200; ++i) nested = Document::array({nested});
                          d["normalizer"] = nested;
                        }),
              HasSubstr("is nested deeper than 100"));
}

// Patterns of files must not take forever.
TEST(TokenizerFiles, EndsPatternsThatBacktrackWithoutEnd) {
  TokenizerFiles files = files_of(read_fixture("folders/llama3.json"));
  Document document = Document::parse(*files.tokenizer_json);
  document["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a+)+$b|(a|a)*c";
  files.tokenizer_json = document.dump();
  const Tokenizer tokenizer(read_tokenizer_files(files));
  EXPECT_THROW(tokenizer.encode(std::string(100, 'a') + "d"), Error);
}

std::string sentencepiece_complaint(const std::function<void(std::string&)>& spoil) {
  TokenizerFiles files = files_of(read_fixture("folders/sp-llama2.json"));
  spoil(*files.sentencepiece_model);
  try {
    const Tokenizer tokenizer(read_tokenizer_files(files));
    return "none";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.what();
  }
}

TEST(TokenizerFiles, RefusesBrokenSentencePieceModels) {
  EXPECT_EQ(sentencepiece_complaint([](auto&) {}), "none");
  EXPECT_THAT(sentencepiece_complaint([](auto& m) { m.clear(); }), HasSubstr("there is no unknown piece"));
  EXPECT_THAT(sentencepiece_complaint([](auto& m) { m = "hello"; }), HasSubstr("folder/tokenizer.model"));
  EXPECT_THAT(sentencepiece_complaint([](auto& m) { m.resize(m.size() / 2); }), HasSubstr("folder/tokenizer.model"));
  EXPECT_THAT(sentencepiece_complaint([](auto& m) { m = m + m; }), HasSubstr("twice"));
}

TEST(TokenizerFiles, SaysThatThereIsNoTokenizer) { EXPECT_THROW(read_tokenizer_files({.name = "folder"}), Error); }

}  // namespace
}  // namespace gabbro::text
