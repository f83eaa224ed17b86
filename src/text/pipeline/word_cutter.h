// Positions at which text with escaped spaces (U+2581) may be cut so that no token crosses a cut, although words have
// no explicit ends.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "src/text/unicode/utf8.h"

namespace gabbro::text {

constexpr std::string_view kEscapedSpace = "\xE2\x96\x81";  // a space as SentencePiece spells it

// A cut is made before an escaped space, unless the byte before it is one that stands there in some token as well. Most
// vocabularies have escaped spaces only in front (and runs of them), so words come apart and are short, which is fast.
class WordCutter {
 public:
  // To be told every string that merging can make.
  void learn(std::string_view token) {
    for (size_t at = token.find(kEscapedSpace); at != token.npos; at = token.find(kEscapedSpace, at + 1)) {
      if (at > 0) joined_[static_cast<uint8_t>(token[at - 1])] = true;
    }
  }

  // The first cut at or after `from`, which is not 0; npos: no cut.
  size_t next_cut(std::string_view text, size_t from) const {
    for (size_t at = text.find(kEscapedSpace, from); at != text.npos; at = text.find(kEscapedSpace, at + 1)) {
      if (!joined_[static_cast<uint8_t>(text[at - 1])]) return at;
    }
    return text.npos;
  }

  // f(word) for each word of `text`. Reads characters as utf8_length() has them, like the encoders.
  template <class F>
  void for_each_word(std::string_view text, F f) const {
    size_t begin = 0;
    for (size_t at = 0; at < text.size(); at += utf8_length(text[at])) {
      if (at == begin || !text.substr(at).starts_with(kEscapedSpace) || joined_[static_cast<uint8_t>(text[at - 1])])
        continue;
      f(text.substr(begin, at - begin));
      begin = at;
    }
    if (begin < text.size()) f(text.substr(begin));
  }

 private:
  std::array<bool, 256> joined_{};
};

}  // namespace gabbro::text
