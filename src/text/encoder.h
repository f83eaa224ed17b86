// What a kind of tokenizer does with a stretch of plain text, special tokens being out of the way.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/vocabulary.h"

namespace gabbro::text {

class Encoder {
 public:
  virtual ~Encoder() = default;

  // Appends the tokens of `text`. `fresh` is true at the beginning of the text and behind a special token.
  virtual void encode(std::string_view text, bool fresh, std::vector<int32_t>& out) const = 0;

  // Appends the bytes that an ordinary token stands for.
  virtual void append_piece(std::string_view token, std::string& out) const = 0;
};

constexpr std::string_view kEscapedSpace = "\xE2\x96\x81";  // U+2581, a space as SentencePiece spells it

// `text` with every `from` replaced by `to`.
void append_replaced(std::string_view text, std::string_view from, std::string_view to, std::string& out);

// Whether an escaped space stands behind another character in `text`. Where no token is so, nothing ever joins a word
// with the space before the next one, and each word can be encoded for itself.
bool spans_words(std::string_view text);

// f(word) for each stretch of `text` that ends where the next escaped space stands behind another character.
template <class F>
void for_each_word(std::string_view text, F f) {
  size_t begin = 0;
  for (size_t at = text.find(kEscapedSpace); at != text.npos;
       at = text.find(kEscapedSpace, at + kEscapedSpace.size())) {
    const bool in_run = at >= begin + kEscapedSpace.size() && text.substr(0, at).ends_with(kEscapedSpace);
    if (at == begin || in_run) continue;
    f(text.substr(begin, at - begin));
    begin = at;
  }
  if (begin < text.size()) f(text.substr(begin));
}

// The tokens <0x00> ... <0xFF> of a vocabulary, kNoToken where there is none.
std::vector<int32_t> byte_tokens(const Vocabulary& vocabulary);

}  // namespace gabbro::text
