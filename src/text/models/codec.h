// One kind of tokenizer at work: text to tokens and back, without the tokens that begin and end a text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/jinja/marked_text.h"
#include "src/text/special/special_splitter.h"
#include "src/text/vocabulary.h"

namespace gabbro::text {

// Text with the ranges that are input; without marks no distinction is made.
struct CodecText {
  std::string_view text;
  bool parse_special = true;  // control tokens that the text spells out become those tokens
  bool marked = false;        // ... but not of input
  std::span<const jinja::InputSpan> input = {};
  size_t threads = 0;  // that a long text may use; 0: all of the machine
};

// May be used by several threads at once.
class Codec {
 public:
  virtual ~Codec() = default;

  // Appends the tokens of a text of any bytes.
  virtual void encode(const CodecText& text, std::vector<int32_t>& out) const = 0;
  // The special tokens that a text spells out, and the text between them.
  virtual std::vector<Fragment> split_special(std::string_view text) const = 0;

  // The text of tokens that arrive one by one. It may end within a character.
  class Stream {
   public:
    virtual ~Stream() = default;
    virtual std::string push(int32_t id) = 0;
    virtual std::string finish() = 0;
  };
  struct DecodeMode {
    bool show_control = false;  // spell control tokens out; otherwise they are left out
    bool continues = false;     // text stands before the first token
  };
  virtual std::unique_ptr<Stream> decode(DecodeMode mode) const = 0;

  // Appends the bytes of one token within a text, control tokens spelled out.
  virtual void append_piece(int32_t id, std::string& out) const = 0;
};

}  // namespace gabbro::text
