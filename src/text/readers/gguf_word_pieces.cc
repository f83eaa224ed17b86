// WordPiece tokenizers of GGUF files, as BERT has them.
#include <algorithm>
#include <memory>
#include <utility>

#include "src/base/error.h"
#include "src/text/models/word_piece_model.h"
#include "src/text/pipeline/pipeline.h"
#include "src/text/pipeline/word_cutter.h"
#include "src/text/readers/tokenizer_spec.h"

namespace gabbro::text {
namespace {

constexpr std::string_view kContinuation = "##";

bool has_capital(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

int32_t find_token(const VocabularySpec& vocabulary, std::string_view text) {
  const auto found = std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), text);
  return found == vocabulary.tokens.end() ? kNoToken : static_cast<int32_t>(found - vocabulary.tokens.begin());
}

// The components around the model, as BERT's tokenizer.json has them.
Json bert_components(bool lowercase) {
  return {{"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", true},
            {"strip_accents", nullptr},
            {"lowercase", lowercase}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"decoder", {{"type", "WordPiece"}, {"prefix", kContinuation}, {"cleanup", true}}}};
}

}  // namespace

// Files spell the begin of a word U+2581; here, as in BERT's vocabularies, it is the other tokens that are marked.
TokenizerSpec read_gguf_word_pieces(VocabularySpec vocabulary) {
  constexpr size_t kMostCharacters = 100;
  if (vocabulary.unknown == kNoToken) vocabulary.unknown = find_token(vocabulary, "[UNK]");
  if (vocabulary.bos == kNoToken) vocabulary.bos = find_token(vocabulary, "[CLS]");
  if (vocabulary.eos == kNoToken) vocabulary.eos = find_token(vocabulary, "[SEP]");
  if (vocabulary.unknown < 0 || static_cast<size_t>(vocabulary.unknown) >= vocabulary.tokens.size())
    throw bad_input("tokenizer.ggml.unknown_token_id: there is no unknown token");
  if (!vocabulary.types.empty() && vocabulary.types.size() != vocabulary.tokens.size()) {
    throw bad_input("tokenizer.ggml.token_type: {} entries for {} tokens", vocabulary.types.size(),
                    vocabulary.tokens.size());
  }
  auto parts = std::make_shared<PipelineParts>();
  std::vector<TokenTable::Entry> entries;
  bool cased = false;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    std::string& token = vocabulary.tokens[i];
    const auto id = static_cast<int32_t>(i);
    const auto type = static_cast<TokenType>(vocabulary.types.empty() ? 1 : vocabulary.types[i]);
    const bool special = type == TokenType::kControl || type == TokenType::kUnknown || id == vocabulary.unknown ||
                         id == vocabulary.bos || id == vocabulary.eos;
    if (special || type == TokenType::kUserDefined) {
      if (!token.empty()) parts->added.push_back({.id = id, .content = token, .special = special});
    } else if (token.starts_with(kEscapedSpace)) {
      token.erase(0, kEscapedSpace.size());
      cased = cased || has_capital(token);
    } else if (type == TokenType::kNormal) {
      token.insert(0, kContinuation);
    }
    if (type == TokenType::kNormal || special) entries.push_back({token, id});
  }
  const std::string unknown = vocabulary.tokens[static_cast<size_t>(vocabulary.unknown)];
  parts->model = make_word_piece_model(std::move(entries), {.unk_token = unknown,
                                                            .continuing_subword_prefix = std::string(kContinuation),
                                                            .max_input_chars_per_word = kMostCharacters});
  const Json components = bert_components(!cased);
  const JsonNode root(components, "tokenizer.ggml");
  parts->normalizer = make_normalizer(root.at("normalizer"));
  append_split_steps(root.at("pre_tokenizer"), parts->steps);
  parts->decoder = Decoder(root.at("decoder"));
  vocabulary.add_bos = vocabulary.add_bos.value_or(vocabulary.bos != kNoToken);
  vocabulary.add_eos = vocabulary.add_eos.value_or(vocabulary.eos != kNoToken);
  TokenizerSpec spec;
  spec.vocabulary = std::move(vocabulary);
  spec.make_codec = [parts](const Vocabulary& all) { return std::make_unique<Pipeline>(std::move(*parts), all); };
  return spec;
}

}  // namespace gabbro::text
