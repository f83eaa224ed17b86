// Properties of characters and normalization forms (utf8proc), as the reference tokenizers use them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gabbro::text {

bool is_white_space(uint32_t c);  // the property White_Space
bool is_punctuation(uint32_t c);  // categories P*, and all signs of ASCII
bool is_numeric(uint32_t c);      // categories N*
bool is_other(uint32_t c);        // control, format, private use and surrogate characters
bool is_combining(uint32_t c);    // categories M*
bool is_nonspacing(uint32_t c);   // category Mn

// Alphabetic characters, marks, decimal digits, connectors and joiners: \w of Rust's regular expressions.
bool is_word_character(uint32_t c);

// Lower case of one character, which may be several.
void append_lower(std::string& out, uint32_t c);

enum class NormalizationForm { kNfc, kNfd, kNfkc, kNfkd };

// `text`, which is well-formed, in a normalization form.
std::string normalize_unicode(std::string_view text, NormalizationForm form);

// The end of the extended grapheme cluster that begins at text[at].
size_t next_grapheme(std::string_view text, size_t at);

}  // namespace gabbro::text
