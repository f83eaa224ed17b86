#include "src/text/unicode/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>

#include "src/base/error.h"
#include "src/text/unicode/later_characters.h"
#include "src/text/unicode/utf8.h"

namespace gabbro::text {
namespace {

utf8proc_int32_t signed_point(uint32_t c) { return static_cast<utf8proc_int32_t>(c); }
utf8proc_category_t category(uint32_t c) { return utf8proc_category(signed_point(c)); }

// Characters of combining class 0 that compose with the character before them, apart from Hangul jamo.
constexpr uint32_t kComposing[] = {0x09BE,  0x09D7,  0x0B3E,  0x0B56,  0x0B57,  0x0BBE,  0x0BD7,  0x0CC2,
                                   0x0CD5,  0x0CD6,  0x0D3E,  0x0D57,  0x0DCF,  0x0DDF,  0x102E,  0x1B35,
                                   0x11127, 0x1133E, 0x11357, 0x114B0, 0x114BA, 0x114BD, 0x115AF, 0x11930};

bool composes_with_previous(uint32_t c) {
  return (c >= 0x1161 && c <= 0x1175) || (c >= 0x11A8 && c <= 0x11C2) ||
         std::binary_search(std::begin(kComposing), std::end(kComposing), c);
}

// True of a character that no form, or no compatible one, changes and that does not change what is before it.
bool is_inert(uint32_t c, bool compatible) {
  if (c < 0x80 || (compatible && is_later_compatible(c))) return true;
  if (c >= 0xAC00 && c <= 0xD7A3) return false;  // Hangul syllables decompose by arithmetic
  const utf8proc_property_t* property = utf8proc_get_property(signed_point(c));
  return property->combining_class == 0 && property->decomp_seqindex == UINT16_MAX && !composes_with_previous(c);
}

void append_normalized(std::string_view text, int options, std::string& out) {
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &mapped, static_cast<utf8proc_option_t>(options));
  if (size < 0) throw failed("cannot normalize text: {}", utf8proc_errmsg(size));
  out.append(reinterpret_cast<const char*>(mapped), static_cast<size_t>(size));
  std::free(mapped);
}

}  // namespace

bool is_white_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_punctuation(uint32_t c) {
  if (c < 0x80)
    return (c >= 0x21 && c <= 0x2F) || (c >= 0x3A && c <= 0x40) || (c >= 0x5B && c <= 0x60) || (c >= 0x7B && c <= 0x7E);
  const utf8proc_category_t kind = category(c);
  const bool is_sign = kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
  constexpr uint32_t kCanadianChi = 0x166D;  // a symbol since Unicode 12
  return c == kCanadianChi || (is_sign && !is_later_punctuation(c));
}

bool is_numeric(uint32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO;
}

bool is_other(uint32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CO || kind == UTF8PROC_CATEGORY_CS ||
         (kind == UTF8PROC_CATEGORY_CF && !is_later_format(c));
}

bool is_combining(uint32_t c) {
  const utf8proc_category_t kind = category(c);
  const bool is_mark = kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC || kind == UTF8PROC_CATEGORY_ME;
  return is_mark && !is_later_combining(c);
}

bool is_nonspacing(uint32_t c) {
  constexpr uint32_t kHanunooPamudpod = 0x1734;  // a spacing mark since Unicode 14
  return c == kHanunooPamudpod || (category(c) == UTF8PROC_CATEGORY_MN && !is_later_nonspacing(c));
}

bool is_word_character(uint32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  const bool letter_sign = (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
                           (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
  const utf8proc_category_t kind = category(c);
  return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_NL) || kind == UTF8PROC_CATEGORY_PC ||
         letter_sign || c == 0x200C || c == 0x200D;
}

void append_lower(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  } else if (c == 0x130) {  // the one character whose lower case is two
    out += "i\xCC\x87";
  } else {
    append_utf8(out, static_cast<uint32_t>(utf8proc_tolower(signed_point(c))));
  }
}

std::string normalize_unicode(std::string_view text, NormalizationForm form) {
  const bool compose = form == NormalizationForm::kNfc || form == NormalizationForm::kNfkc;
  const bool compatible = form == NormalizationForm::kNfkc || form == NormalizationForm::kNfkd;
  const int options =
      UTF8PROC_STABLE | (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) | (compatible ? UTF8PROC_COMPAT : 0);
  std::string out;
  out.reserve(text.size());
  size_t done = 0;        // text before it is in `out`
  size_t last_begin = 0;  // of the last character
  for (size_t at = 0; at < text.size();) {
    const Character character = read_utf8(text, at);
    const size_t length = std::max<size_t>(character.length, 1);
    if (character.length == 1 || is_inert(character.code_point, compatible)) {
      last_begin = at;
      at += length;
      continue;
    }
    // From the character before, which may compose with this one, to the next that nothing changes.
    size_t end = at + length;
    while (end < text.size()) {
      const Character next = read_utf8(text, end);
      if (next.length == 1 || is_inert(next.code_point, compatible)) break;
      end += std::max<size_t>(next.length, 1);
    }
    const size_t begin = at > done ? last_begin : at;
    out.append(text, done, begin - done);
    append_normalized(text.substr(begin, end - begin), options, out);
    done = at = last_begin = end;
  }
  out.append(text, done);
  return out;
}

size_t next_grapheme(std::string_view text, size_t at) {
  Character previous = read_utf8(text, at);
  utf8proc_int32_t state = 0;
  for (at += std::max<size_t>(previous.length, 1); at < text.size();) {
    const Character next = read_utf8(text, at);
    if (utf8proc_grapheme_break_stateful(signed_point(previous.code_point), signed_point(next.code_point), &state))
      break;
    at += std::max<size_t>(next.length, 1);
    previous = next;
  }
  return at;
}

}  // namespace gabbro::text
