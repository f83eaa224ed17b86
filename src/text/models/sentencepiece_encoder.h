// SentencePiece's byte pair encoding (Kudo & Richardson 2018), where scores of tokens stand in for merges.
#pragma once

#include "src/text/pipeline/encoder.h"
#include "src/text/pipeline/word_cutter.h"

namespace gabbro::text {

class SentencePieceEncoder final : public Encoder {
 public:
  explicit SentencePieceEncoder(const Vocabulary& vocabulary, bool add_space_prefix);

  void encode(std::string_view text, bool fresh, std::vector<int32_t>& out) const override;
  void append_piece(std::string_view token, std::string& out) const override;

 private:
  class Merger;

  void encode_word(std::string_view text, Merger& merger, std::vector<int32_t>& out) const;
  void emit_bytes(std::string_view text, std::vector<int32_t>& out) const;

  const Vocabulary& vocabulary_;
  bool add_space_prefix_;
  WordCutter cutter_;
  size_t longest_ = 0;                  // bytes of the longest token
  std::vector<int32_t> byte_fallback_;  // of each byte: the token that stands for it, or kNoToken
};

}  // namespace gabbro::text
