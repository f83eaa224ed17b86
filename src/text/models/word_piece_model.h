// WordPiece (Schuster & Nakajima 2012): the longest token first. And whole words as tokens.
#pragma once

#include "src/text/models/word_model.h"

namespace gabbro::text {

struct WordPieceOptions {
  std::string unk_token;
  std::string continuing_subword_prefix;  // of tokens that do not begin a word
  size_t max_input_chars_per_word;        // a longer word is unknown
};
std::unique_ptr<WordModel> make_word_piece_model(std::vector<TokenTable::Entry> entries, WordPieceOptions options);

// The models of a node of tokenizer.json. Throw bad_input that names the path.
std::unique_ptr<WordModel> make_word_piece_model(const JsonNode& node);
std::unique_ptr<WordModel> make_word_level_model(const JsonNode& node);

}  // namespace gabbro::text
