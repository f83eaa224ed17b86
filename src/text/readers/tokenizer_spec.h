// The specification of a tokenizer, from any of the files that describe one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/text/models/codec.h"
#include "src/text/vocabulary.h"

namespace gabbro::text {

struct TokenizerSpec {
  VocabularySpec vocabulary;
  std::vector<int32_t> prefix, suffix;  // tokens that begin and end a text
  std::function<std::unique_ptr<const Codec>(const Vocabulary&)> make_codec;
};

// The files of a model's folder that describe its tokenizer, unchanged. `name` is the folder, for messages.
struct TokenizerFiles {
  std::string name;
  std::optional<std::string> tokenizer_json;
  std::optional<std::string> sentencepiece_model;  // tokenizer.model, spiece.model, ...
  std::optional<std::string> tokenizer_config;     // tokenizer_config.json
  std::optional<std::string> special_tokens_map;   // special_tokens_map.json
  std::optional<std::string> added_tokens;         // added_tokens.json
  std::vector<int32_t> end_of_generation;          // from generation_config.json
};

// Throw bad_input that names the file, and in it the path or field, that is wrong or not supported.
TokenizerSpec read_gguf_vocabulary(VocabularySpec vocabulary);   // gguf_codec.cc
TokenizerSpec read_tokenizer_json(const TokenizerFiles& files);  // tokenizer_json.cc
TokenizerSpec read_sentencepiece(const TokenizerFiles& files);   // sentencepiece_codec.cc
TokenizerSpec read_gguf_unigram(VocabularySpec vocabulary);      // sentencepiece_codec.cc
TokenizerSpec read_gguf_word_pieces(VocabularySpec vocabulary);  // gguf_word_pieces.cc
// tokenizer.json if it exists, else the SentencePiece model.
TokenizerSpec read_tokenizer_files(const TokenizerFiles& files);

}  // namespace gabbro::text
