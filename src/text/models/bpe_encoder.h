// Byte pair encoding (Sennrich et al. 2016), over GPT-2's alphabet of bytes or over UTF-8 with byte tokens.
#pragma once

#include <deque>

#include "src/text/models/memory_pool.h"
#include "src/text/models/merge_table.h"
#include "src/text/models/merger.h"
#include "src/text/pipeline/encoder.h"
#include "src/text/pipeline/pretokenizer.h"
#include "src/text/pipeline/word_cache.h"
#include "src/text/pipeline/word_cutter.h"

namespace gabbro::text {

class BpeEncoder final : public Encoder {
 public:
  // Throws bad_input naming tokenizer.ggml.merges and the entry for merges that are not two strings with a space
  // between. A merge may name strings that are not tokens: where such a string is left over, its bytes are looked up
  // one by one.
  BpeEncoder(const Vocabulary& vocabulary, std::string_view pretokenizer, const std::vector<std::string>& merges);

  const PreTokenizerRule& rule() const { return pretokenizer_.rule(); }

  void encode(std::string_view text, bool fresh, std::vector<int32_t>& out) const override;
  void append_piece(std::string_view token, std::string& out) const override;

 private:
  struct Memory {  // of one thread
    explicit Memory(const PreTokenizer& pretokenizer) : splitter(pretokenizer) {}
    PreTokenizer::Splitter splitter;
    Merger word;
    WordCache cache;
  };

  int32_t find_symbol(std::string_view text) const;
  std::string_view symbol_text(int32_t symbol) const;
  int32_t find_or_add_symbol(std::string_view text);
  int32_t joined_symbol(std::string_view left, std::string_view right, int32_t guess);
  void add_merges(const std::vector<std::string>& merges);
  int32_t whole_token(std::string_view word) const;
  void append_symbols(std::string_view word, Merger& symbols) const;
  void encode_piece(std::string_view piece, Memory& memory, std::vector<int32_t>& out) const;
  void encode_line(std::string_view line, Memory& memory, std::vector<int32_t>& out) const;
  void encode_word(std::string_view text, Merger& word, std::vector<int32_t>& out) const;
  void emit(int32_t symbol, std::vector<int32_t>& out) const;

  const Vocabulary& vocabulary_;
  PreTokenizer pretokenizer_;
  WordCutter cutter_;
  MergeTable merges_;
  // Symbols are tokens and, numbered after them, strings that occur in merges (or are spellings of bytes) without being
  // tokens.
  StringTable extra_;
  std::deque<std::string> extra_texts_;
  std::vector<int32_t> byte_symbols_;  // of each byte: the symbol that spells it
  std::vector<int32_t>
      byte_fallback_;  // of each byte of a symbol that is not a token: the token that stands for it, or kNoToken

  mutable MemoryPool<Memory> memory_;
};

}  // namespace gabbro::text
