// Text to tokens and back, exactly as the model was trained with: token for token what `tokenizers`, `sentencepiece`
// and llama.cpp give for the same vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/jinja/marked_text.h"
#include "src/text/encoder.h"
#include "src/text/special_splitter.h"
#include "src/text/vocabulary.h"

namespace gabbro::text {

struct EncodeOptions {
  bool add_special = true;    // begin (end) with the bos (eos) token where the model wants it
  bool parse_special = true;  // control tokens that the text spells out become those tokens
};

struct DecodeOptions {
  bool remove_special = true;  // drop the bos (eos) token that encode() added
  bool show_control = false;   // spell control tokens out; otherwise they are left out
};

class Tokenizer {
 public:
  // Throws bad_input that names the field of the file that is wrong or not supported.
  explicit Tokenizer(VocabularySpec spec);

  // Any bytes will do: broken UTF-8 counts as U+FFFD where the vocabulary is made of words, and as bytes otherwise.
  // May be called by several threads at once.
  std::vector<int32_t> encode(std::string_view text, EncodeOptions options = {}) const;

  // The same, but what the text has of input is plain text: a control token, or a token that structures conversations
  // (special_splitter.h), is made only of bytes that are not input. Other text gets the same tokens as above.
  std::vector<int32_t> encode_marked(const jinja::MarkedText& text, EncodeOptions options = {}) const;

  // The special tokens that a text spells out, and the text between them.
  std::vector<Fragment> split_special(std::string_view text) const { return splitter_->split(text, true); }

  // May end within a character; see Utf8Stream. Throws bad_input for an id outside the vocabulary.
  std::string decode(std::span<const int32_t> ids, DecodeOptions options = {}) const;

  // The bytes of one token, control tokens spelled out. Throws as above.
  std::string_view piece(int32_t id) const;

  int32_t size() const { return vocabulary_->size(); }
  int32_t find(std::string_view token_text) const {
    return vocabulary_->find(token_text);
  }                                   // as the file spells it; or kNoToken
  bool is_control(int32_t id) const;  // never shown to users: control and unknown tokens
  bool is_end_of_generation(int32_t id) const;
  const std::vector<int32_t>& end_of_generation() const { return vocabulary_->end_of_generation(); }

  int32_t bos() const { return vocabulary_->spec().bos; }  // kNoToken where there is none, here and below
  int32_t eos() const { return vocabulary_->spec().eos; }
  int32_t eot() const { return vocabulary_->spec().eot; }
  int32_t unknown() const { return vocabulary_->spec().unknown; }
  int32_t padding() const { return vocabulary_->spec().padding; }
  bool adds_bos() const { return add_bos_; }
  bool adds_eos() const { return add_eos_; }
  // Unused parts of the specification, a line each.
  const std::vector<std::string>& warnings() const { return vocabulary_->warnings(); }
  const Vocabulary& vocabulary() const { return *vocabulary_; }

 private:
  std::vector<int32_t> encode_fragments(const std::vector<Fragment>& fragments, EncodeOptions options) const;
  void check_id(int32_t id) const;
  void spell_pieces();

  std::unique_ptr<const Vocabulary> vocabulary_;
  std::unique_ptr<const Encoder> encoder_;
  std::unique_ptr<const SpecialSplitter> splitter_;
  std::string pieces_;                // the bytes of all tokens, one after another
  std::vector<size_t> piece_begins_;  // one per token, and the end
  bool add_bos_ = false;
  bool add_eos_ = false;
  bool add_space_prefix_ = false;
};

}  // namespace gabbro::text
