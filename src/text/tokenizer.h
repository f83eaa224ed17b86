// Text to tokens and back, exactly as the model was trained with: token for token what `tokenizers`, `sentencepiece`
// and llama.cpp give for the same vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/jinja/marked_text.h"
#include "src/text/models/codec.h"
#include "src/text/readers/tokenizer_spec.h"
#include "src/text/unicode/utf8_stream.h"
#include "src/text/vocabulary.h"

namespace gabbro::text {

namespace grammar {
class GrammarSet;  // src/text/grammar/matcher.h
}

struct EncodeOptions {
  bool add_special = true;    // begin (end) with the bos (eos) token where the model wants it
  bool parse_special = true;  // control tokens that the text spells out become those tokens
  size_t threads = 0;         // that a long text may use; 0: all of the machine
};

struct DecodeOptions {
  bool remove_special = true;  // drop the bos (eos) token that encode() added
  bool show_control = false;   // spell control tokens out; otherwise they are left out
};

class Tokenizer {
 public:
  // Throws bad_input that names the field of the file that is wrong or not supported.
  explicit Tokenizer(TokenizerSpec spec);
  explicit Tokenizer(VocabularySpec spec) : Tokenizer(read_gguf_vocabulary(std::move(spec))) {}

  // Any bytes will do: broken UTF-8 counts as U+FFFD where the vocabulary is made of words, and as bytes otherwise.
  // May be called by several threads at once.
  std::vector<int32_t> encode(std::string_view text, EncodeOptions options = {}) const;

  // As encode(), but input in the text is plain text: a control token, or a token that structures conversations
  // (special_splitter.h), is made only of bytes that are not input. Other text gets the same tokens as above.
  std::vector<int32_t> encode_marked(const jinja::MarkedText& text, EncodeOptions options = {}) const;

  // The special tokens that a text spells out, and the text between them.
  std::vector<Fragment> split_special(std::string_view text) const { return codec_->split_special(text); }

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

  int32_t bos() const { return vocabulary_->spec().bos; }  // kNoToken: not in the vocabulary, here and below
  int32_t eos() const { return vocabulary_->spec().eos; }
  int32_t eot() const { return vocabulary_->spec().eot; }
  int32_t unknown() const { return vocabulary_->spec().unknown; }
  int32_t padding() const { return vocabulary_->spec().padding; }
  bool adds_bos() const { return !prefix_.empty() && prefix_.front() == bos(); }
  bool adds_eos() const { return !suffix_.empty() && suffix_.back() == eos(); }
  // The tokens that begin and end a text, as encode() adds them.
  std::span<const int32_t> prefix() const { return prefix_; }
  std::span<const int32_t> suffix() const { return suffix_; }
  // Unused parts of the specification, a line each.
  const std::vector<std::string>& warnings() const { return vocabulary_->warnings(); }
  const Vocabulary& vocabulary() const { return *vocabulary_; }
  // The grammars that texts of this vocabulary may have to obey; made when they are first asked for. Thread-safe.
  grammar::GrammarSet& grammars() const;

 private:
  friend class TokenStream;
  std::vector<int32_t> encode_text(const CodecText& text, EncodeOptions options) const;
  void check_id(int32_t id) const;
  // The bytes of all tokens, in sequence; made when they are first asked for.
  struct Pieces {
    std::once_flag made;
    std::string bytes;
    std::vector<size_t> begins;  // one per token, and the end
  };

  std::unique_ptr<const Vocabulary> vocabulary_;
  std::unique_ptr<const Codec> codec_;
  std::vector<int32_t> prefix_, suffix_;  // tokens that begin and end a text
  struct Grammars;

  std::unique_ptr<Pieces> pieces_ = std::make_unique<Pieces>();
  std::shared_ptr<Grammars> grammars_;
};

// Text of tokens as they arrive: whole characters. All of it together is what decode() gives, with U+FFFD for what is
// not UTF-8. The tokenizer outlives it.
class TokenStream {
 public:
  explicit TokenStream(const Tokenizer& tokenizer, Codec::DecodeMode mode = {})
      : tokenizer_(tokenizer), mode_(mode), stream_(tokenizer.codec_->decode(mode)) {}

  // Throws bad_input for an id outside the vocabulary.
  std::string push(int32_t id) {
    tokenizer_.check_id(id);
    return characters_.push(stream_->push(id));
  }
  // The text that is held back. More tokens may follow.
  std::string flush() {
    std::string text = characters_.push(stream_->finish());
    mode_.continues = true;
    stream_ = tokenizer_.codec_->decode(mode_);
    return text + characters_.flush();
  }

 private:
  const Tokenizer& tokenizer_;
  Codec::DecodeMode mode_;
  std::unique_ptr<Codec::Stream> stream_;
  Utf8Stream characters_;
};

}  // namespace gabbro::text
