// SentencePiece's .model files: the message ModelProto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gabbro::text {

struct SentencePieceFile {
  enum class Kind : int32_t { kUnigram = 1, kBpe = 2, kWord = 3, kCharacters = 4 };
  struct Piece {
    std::string text;
    float score = 0;
    int32_t type = 1;  // as TokenType
  };

  std::vector<Piece> pieces;
  Kind kind = Kind::kUnigram;
  bool treat_whitespace_as_suffix = false;
  bool byte_fallback = false;
  int32_t unknown = 0, bos = 1, eos = 2, padding = -1;  // -1: none
  std::string unknown_surface = " \xE2\x81\x87 ";       // " ⁇ "

  std::string charsmap;  // of the normalizer; see charsmap.h
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

// Throws bad_input that names `where` and what is wrong: no message, no unknown piece, empty or repeated pieces, scores
// that are not finite, byte fallback without all bytes, a denormalizer.
SentencePieceFile read_sentencepiece_file(std::string_view bytes, const std::string& where);

// The checks of the above that are about pieces, for a file that was filled in otherwise; finds the unknown piece, and
// drops bos, eos and padding that are not control pieces.
void check_sentencepiece(SentencePieceFile& file, const std::string& where);

}  // namespace gabbro::text
