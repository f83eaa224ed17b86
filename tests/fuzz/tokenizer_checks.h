// Checks that hold for the tokenizer of any file and any text.
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>

#include "src/base/error.h"
#include "src/text/pipeline/decode_stages.h"
#include "src/text/tokenizer.h"
#include "src/text/unicode/utf8.h"

namespace gabbro::fuzz {

// The file of `files` is refused in one line, or encodes `text` to ids of the vocabulary. Streamed text is the decoded
// one, and input does not become control tokens.
inline void check_tokenizer(const text::TokenizerFiles& files, const std::string& text) {
  using namespace gabbro::text;
  try {
    const Tokenizer tokenizer(read_tokenizer_files(files));
    const std::vector<int32_t> ids = tokenizer.encode(text);
    TokenStream stream(tokenizer);
    std::string streamed;
    for (const int32_t id : ids) {
      (void)tokenizer.piece(id);  // throws for an id outside the vocabulary
      streamed += stream.push(id);
    }
    streamed += stream.flush();
    Utf8Stream whole;
    std::string decoded = whole.push(tokenizer.decode(ids, {.remove_special = false}));
    decoded += whole.flush();
    if (decoded != streamed || !is_valid_utf8(streamed)) std::abort();
    (void)tokenizer.split_special(text);
    for (const int32_t id : tokenizer.encode_marked(jinja::MarkedText::input(text), {.add_special = false})) {
      // A token of one character or byte is what its text is made of, whatever the file calls it.
      const std::string_view made = tokenizer.vocabulary().text(id);
      const bool single = utf8_length(made[0]) >= made.size() || byte_of_token(made) >= 0;
      if (tokenizer.vocabulary().has(id, kControlToken) && id != tokenizer.unknown() && !single) std::abort();
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kBadInput || std::strchr(error.what(), '\n') != nullptr) std::abort();
  }
}

}  // namespace gabbro::fuzz
