#include "src/jinja/utf8.h"

#include <utf8proc.h>

#include <algorithm>

namespace gabbro::jinja {
namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

// Case mappings to more than one code point, of those that text meets (SpecialCasing.txt), in the order of code points.
struct SpecialCase {
  char32_t point;
  const char* upper;
  const char* title;  // at the start of a word, where only the first letter is large
};
constexpr SpecialCase kSpecialCases[] = {
    {0xdf, "SS", "Ss"},
    {0x149, "\u02bcN", "\u02bcN"},
    {0x1f0, "J\u030c", "J\u030c"},
    {0x390, "\u0399\u0308\u0301", "\u0399\u0308\u0301"},
    {0x3b0, "\u03a5\u0308\u0301", "\u03a5\u0308\u0301"},
    {0x587, "\u0535\u0552", "\u0535\u0582"},
    {0xfb00, "FF", "Ff"},
    {0xfb01, "FI", "Fi"},
    {0xfb02, "FL", "Fl"},
    {0xfb03, "FFI", "Ffi"},
    {0xfb04, "FFL", "Ffl"},
    {0xfb05, "ST", "St"},
    {0xfb06, "ST", "St"},
};

const SpecialCase* special_case(char32_t c) {
  const auto* found = std::ranges::lower_bound(kSpecialCases, c, {}, &SpecialCase::point);
  return found != std::end(kSpecialCases) && found->point == c ? found : nullptr;
}

bool is_cased(char32_t c) { return is_upper(c) || is_lower(c) || is_title(c); }

bool is_case_ignorable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == '\'' || c == '.' || c == ':' || c == 0xb7 || c == 0x2019;
  }
}

// Greek capital sigma at the end of a word becomes a final sigma.
bool is_final_sigma(std::u32string_view text, size_t at) {
  size_t before = at;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  size_t after = at + 1;
  while (after < text.size() && is_case_ignorable(text[after])) ++after;
  return after == text.size() || !is_cased(text[after]);
}

char32_t simple_lower(char32_t c) { return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))); }

void append_lower(std::string* out, std::u32string_view text, size_t at) {
  const char32_t c = text[at];
  if (c == 0x130) {
    out->append("i\u0307");
  } else if (c == 0x3a3) {
    append_code_point(out, is_final_sigma(text, at) ? 0x3c2 : 0x3c3);
  } else {
    append_code_point(out, simple_lower(c));
  }
}

void append_upper(std::string* out, char32_t c) {
  if (const SpecialCase* special = special_case(c)) {
    out->append(special->upper);
  } else {
    append_code_point(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
  }
}

void append_title(std::string* out, char32_t c) {
  if (const SpecialCase* special = special_case(c)) {
    out->append(special->title);
  } else {
    append_code_point(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
  }
}

bool is_ascii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  }
  return true;
}

bool is_line_break(char32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

}  // namespace

char32_t next_code_point(std::string_view text, size_t* position) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char lead = byte(*position);
  const size_t length = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (length == 1) {
    ++*position;
    return lead;
  }
  char32_t code_point = lead & (0x7fu >> length);
  bool valid = lead >= 0xc2 && lead <= 0xf4 && *position + length <= text.size();
  for (size_t i = 1; valid && i < length; ++i) {
    valid = (byte(*position + i) & 0xc0) == 0x80;
    code_point = (code_point << 6) | (byte(*position + i) & 0x3f);
  }
  valid = valid && !(length == 3 && (code_point < 0x800 || (code_point >= 0xd800 && code_point < 0xe000))) &&
          !(length == 4 && (code_point < 0x10000 || code_point > 0x10ffff));
  if (!valid) {
    ++*position;
    return 0xdc00 + lead;
  }
  *position += length;
  return code_point;
}

void append_code_point(std::string* text, char32_t c) {
  if (c < 0x80) {
    text->push_back(static_cast<char>(c));
  } else if (c >= 0xdc80 && c <= 0xdcff) {
    text->push_back(static_cast<char>(c - 0xdc00));
  } else if (c < 0x800) {
    text->push_back(static_cast<char>(0xc0 | (c >> 6)));
    text->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  } else if (c < 0x10000) {
    text->push_back(static_cast<char>(0xe0 | (c >> 12)));
    text->push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3f)));
    text->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  } else {
    text->push_back(static_cast<char>(0xf0 | (c >> 18)));
    text->push_back(static_cast<char>(0x80 | ((c >> 12) & 0x3f)));
    text->push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3f)));
    text->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  }
}

std::u32string decode(std::string_view text) {
  std::u32string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) result.push_back(next_code_point(text, &at));
  return result;
}

std::string encode(std::u32string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char32_t c : text) append_code_point(&result, c);
  return result;
}

size_t count_code_points(std::string_view text) {
  if (is_ascii(text)) return text.size();
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) next_code_point(text, &at);
  return count;
}

size_t byte_offset(std::string_view text, size_t index) {
  size_t at = 0;
  while (at < text.size() && index > 0) {
    next_code_point(text, &at);
    --index;
  }
  return at;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_alpha(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

bool is_digit(char32_t c) {
  return is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}

bool is_numeric(char32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO;
}

bool is_word(char32_t c) { return c == '_' || is_alpha(c) || is_numeric(c); }

bool is_printable(char32_t c) {
  if (c < 0x7f) return c >= 0x20;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

bool is_upper(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL || c == 0xaa || c == 0xba; }
bool is_title(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }

std::string upper(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) append_upper(&result, next_code_point(text, &at));
  return result;
}

std::string lower(std::string_view text) {
  const std::u32string points = decode(text);
  std::string result;
  for (size_t i = 0; i < points.size(); ++i) append_lower(&result, points, i);
  return result;
}

std::string capitalize(std::string_view text) {
  const std::u32string points = decode(text);
  std::string result;
  for (size_t i = 0; i < points.size(); ++i) {
    if (i == 0) {
      append_title(&result, points[i]);
    } else {
      append_lower(&result, points, i);
    }
  }
  return result;
}

std::string title(std::string_view text) {
  const std::u32string points = decode(text);
  std::string result;
  bool in_word = false;
  for (size_t i = 0; i < points.size(); ++i) {
    if (in_word) {
      append_lower(&result, points, i);
    } else {
      append_title(&result, points[i]);
    }
    in_word = is_cased(points[i]);
  }
  return result;
}

std::string swapcase(std::string_view text) {
  const std::u32string points = decode(text);
  std::string result;
  for (size_t i = 0; i < points.size(); ++i) {
    if (is_upper(points[i])) {
      append_lower(&result, points, i);
    } else if (is_lower(points[i])) {
      append_upper(&result, points[i]);
    } else {
      append_code_point(&result, points[i]);
    }
  }
  return result;
}

std::string casefold(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, &at);
    if (const SpecialCase* special = special_case(c)) {
      result += lower(special->upper);
    } else {
      append_code_point(&result, c == 0x3c2 ? 0x3c3 : simple_lower(c));
    }
  }
  return result;
}

std::string_view strip(std::string_view text, int sides, const std::string* characters) {
  std::u32string set = characters ? decode(*characters) : std::u32string();
  std::sort(set.begin(), set.end());
  set.erase(std::unique(set.begin(), set.end()), set.end());
  const auto drops = [&](char32_t c) {
    return characters ? std::binary_search(set.begin(), set.end(), c) : is_space(c);
  };
  size_t begin = 0;
  if (sides & kLeft) {
    for (size_t at = 0; at < text.size() && drops(next_code_point(text, &at));) begin = at;
  }
  size_t end = text.size();
  while ((sides & kRight) && end > begin) {
    size_t start = end - 1;  // of the last code point
    while (start > begin && (static_cast<unsigned char>(text[start]) & 0xc0) == 0x80 && end - start < 4) --start;
    size_t at = start;
    char32_t last = next_code_point(text, &at);
    if (at != end) {  // not valid UTF-8: the last byte stands alone
      start = end - 1;
      last = 0xdc00 + static_cast<unsigned char>(text[start]);
    }
    if (!drops(last)) break;
    end = start;
  }
  return text.substr(begin, end - begin);
}

void for_each_line(std::string_view text, bool keep_ends, const std::function<void(std::string_view)>& take) {
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = next_code_point(text, &at);
    if (!is_line_break(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    take(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) take(text.substr(begin));
}

}  // namespace gabbro::jinja
