// An encoder of plain text, for one kind of tokenizer; special tokens are already cut out.
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

// `text` with every `from` replaced by `to`.
void append_replaced(std::string_view text, std::string_view from, std::string_view to, std::string& out);

// The tokens <0x00> ... <0xFF> of a vocabulary, kNoToken: not in the vocabulary.
std::vector<int32_t> byte_tokens(const Vocabulary& vocabulary);

}  // namespace gabbro::text
