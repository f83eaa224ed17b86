#include "src/text/readers/sentencepiece_file.h"

#include <array>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "src/base/error.h"
#include "src/text/pipeline/decode_stages.h"
#include "src/text/readers/protobuf.h"
#include "src/text/unicode/utf8.h"
#include "src/text/vocabulary.h"

namespace gabbro::text {
namespace {

constexpr size_t kMostPieces = size_t{1} << 24;
constexpr size_t kMostPieceBytes = size_t{1} << 16;

int32_t as_int32(uint64_t number) { return static_cast<int32_t>(static_cast<uint32_t>(number)); }

SentencePieceFile::Piece read_piece(ProtobufReader message) {
  SentencePieceFile::Piece piece;
  while (message.next()) {
    if (message.field() == 1) piece.text = message.bytes();
    if (message.field() == 2) piece.score = message.f32();
    if (message.field() == 3) piece.type = as_int32(message.varint());
  }
  if (piece.text.empty() || piece.text.size() > kMostPieceBytes)
    throw bad_input("{}: a piece of {} bytes", message.where(), piece.text.size());
  if (!is_valid_utf8(piece.text)) throw bad_input("{}: the piece is not UTF-8", message.where());
  if (!std::isfinite(piece.score)) throw bad_input("{}: the score is not a finite number", message.where());
  if (piece.type < 1 || piece.type > 6)
    throw bad_input("{}: type {} of a piece is not supported", message.where(), piece.type);
  return piece;
}

void read_trainer(ProtobufReader message, SentencePieceFile& file) {
  while (message.next()) {
    switch (message.field()) {
      case 3:
        file.kind = static_cast<SentencePieceFile::Kind>(as_int32(message.varint()));
        break;
      case 24:
        file.treat_whitespace_as_suffix = message.varint() != 0;
        break;
      case 35:
        file.byte_fallback = message.varint() != 0;
        break;
      case 41:
        file.bos = as_int32(message.varint());
        break;
      case 42:
        file.eos = as_int32(message.varint());
        break;
      case 43:
        file.padding = as_int32(message.varint());
        break;
      case 44:
        file.unknown_surface = message.bytes();
        break;
      default:
        break;
    }
  }
}

void read_normalizer(ProtobufReader message, SentencePieceFile& file) {
  while (message.next()) {
    if (message.field() == 2) file.charsmap = message.bytes();
    if (message.field() == 3) file.add_dummy_prefix = message.varint() != 0;
    if (message.field() == 4) file.remove_extra_whitespaces = message.varint() != 0;
    if (message.field() == 5) file.escape_whitespaces = message.varint() != 0;
  }
}

void check_denormalizer(ProtobufReader message) {
  while (message.next()) {
    if (message.field() == 2 && !message.bytes().empty())
      throw bad_input("{}: a denormalizer is not supported", message.where());
  }
}

}  // namespace

void check_sentencepiece(SentencePieceFile& file, const std::string& where) {
  std::unordered_set<std::string_view> seen;
  std::array<bool, 256> bytes{};
  file.unknown = -1;
  for (size_t i = 0; i < file.pieces.size(); ++i) {
    const SentencePieceFile::Piece& piece = file.pieces[i];
    if (!seen.insert(piece.text).second) throw bad_input("{}: piece {} is there twice", where, i);
    const auto type = static_cast<TokenType>(piece.type);
    if (type == TokenType::kUnknown) {
      if (file.unknown >= 0) throw bad_input("{}: piece {} is a second unknown piece", where, i);
      file.unknown = static_cast<int32_t>(i);
    }
    if (type != TokenType::kByte) continue;
    const int byte = byte_of_token(piece.text);
    if (byte < 0) throw bad_input("{}: piece {} is of type byte, but not spelled <0xXX>", where, i);
    bytes[static_cast<size_t>(byte)] = true;
  }
  if (file.unknown < 0) throw bad_input("{}: there is no unknown piece", where);
  for (size_t byte = 0; file.byte_fallback && byte < bytes.size(); ++byte) {
    if (!bytes[byte]) throw bad_input("{}: byte_fallback is set, but there is no piece for byte {}", where, byte);
  }
  const auto drop_outside = [&](int32_t& id) {
    if (id < 0 || static_cast<size_t>(id) >= file.pieces.size() ||
        file.pieces[static_cast<size_t>(id)].type != static_cast<int32_t>(TokenType::kControl))
      id = -1;
  };
  drop_outside(file.bos);
  drop_outside(file.eos);
  drop_outside(file.padding);
}

SentencePieceFile read_sentencepiece_file(std::string_view bytes, const std::string& where) {
  SentencePieceFile file;
  ProtobufReader message(bytes, where);
  while (message.next()) {
    switch (message.field()) {
      case 1:
        if (file.pieces.size() == kMostPieces) throw bad_input("{}: more than {} pieces", where, kMostPieces);
        file.pieces.push_back(
            read_piece(ProtobufReader(message.bytes(), fmt::format("{}: piece {}", where, file.pieces.size()))));
        break;
      case 2:
        read_trainer(ProtobufReader(message.bytes(), where + ": trainer_spec"), file);
        break;
      case 3:
        read_normalizer(ProtobufReader(message.bytes(), where + ": normalizer_spec"), file);
        break;
      case 5:
        check_denormalizer(ProtobufReader(message.bytes(), where + ": denormalizer_spec"));
        break;
      default:
        break;
    }
  }
  check_sentencepiece(file, where);
  using Kind = SentencePieceFile::Kind;
  if (file.kind != Kind::kUnigram && file.kind != Kind::kBpe)
    throw bad_input("{}: model type {} is not supported (unigram and BPE are)", where, static_cast<int>(file.kind));
  return file;
}

}  // namespace gabbro::text
