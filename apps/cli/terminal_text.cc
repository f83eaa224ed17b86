#include "apps/cli/terminal_text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>

#include "src/text/unicode/utf8.h"

namespace gabbro::cli {
namespace {

constexpr int kNarrowest = 10;  // columns; words do not wrap below that
constexpr int kTab = 8;

bool sets_direction(uint32_t c) {
  return c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

int columns_of(uint32_t c) { return utf8proc_charwidth(static_cast<utf8proc_int32_t>(c)); }

int columns_of(std::string_view spaces, int column) {
  const int start = column;
  for (const char c : spaces) column = c == '\t' ? (column / kTab + 1) * kTab : column + 1;
  return column - start;
}

bool is_hangul(uint32_t c) { return c >= 0xAC00 && c <= 0xD7A3; }  // Korean separates words by spaces

// Chinese and Japanese break between any two characters, but not before closing punctuation and after opening one.
bool breaks_between(uint32_t before, uint32_t after) {
  const auto is_wide = [](uint32_t c) { return columns_of(c) == 2 && !is_hangul(c); };
  if (before == 0 || columns_of(after) == 0 || (!is_wide(before) && !is_wide(after))) return false;
  if (after >= 0x1F3FB && after <= 0x1F3FF) return false;  // a skin tone belongs to the emoji before it
  const auto kind_before = utf8proc_category(static_cast<utf8proc_int32_t>(before));
  const auto kind_after = utf8proc_category(static_cast<utf8proc_int32_t>(after));
  const bool opens = kind_before == UTF8PROC_CATEGORY_PS || kind_before == UTF8PROC_CATEGORY_PI;
  const bool closes =
      kind_after == UTF8PROC_CATEGORY_PE || kind_after == UTF8PROC_CATEGORY_PF || kind_after == UTF8PROC_CATEGORY_PO;
  constexpr uint32_t kJoiner = 0x200D;
  return !opens && !closes && before != kJoiner;
}

}  // namespace

std::string escape_of(uint32_t c) {
  if (c == '\n') return "\\n";
  if (c == '\t') return "\\t";
  if (c == '\r') return "\\r";
  if (c < 0x20 || (c >= 0x7F && c < 0xA0)) return fmt::format("\\x{:02x}", c);
  return sets_direction(c) ? fmt::format("\\u{:04x}", c) : "";
}

std::string printable(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const text::Character c = text::read_utf8(text, at);
    if (c.length == 0) {
      out += text::kReplacement;
      at += std::max<size_t>(1, c.broken);
      continue;
    }
    const std::string escape = escape_of(c.code_point);
    out += escape.empty() ? text.substr(at, c.length) : escape;
    at += c.length;
  }
  return out;
}

std::string TerminalText::push(std::string_view bytes) {
  measure();
  std::string out;
  add_text(utf8_.push(bytes), out);
  if (width_ == 0) {  // nothing is worth holding back
    flush_word(out);
    out += spaces_;
    spaces_.clear();
    continues_ = last_ != 0;
  }
  return out;
}

std::string TerminalText::finish() {
  measure();
  std::string out;
  add_text(utf8_.flush(), out);
  if (after_return_) add_to_word('\\', "\\r", 2, out);
  after_return_ = false;
  flush_word(out);
  out += spaces_;
  spaces_.clear();
  return out;
}

void TerminalText::measure() {
  width_ = columns_();
  if (width_ < kNarrowest) width_ = 0;
}

void TerminalText::add_text(std::string_view text, std::string& out) {
  for (size_t at = 0; at < text.size();) {
    const text::Character c = text::read_utf8(text, at);
    add(c.code_point, text.substr(at, c.length), out);
    at += c.length;
  }
}

void TerminalText::add(uint32_t c, std::string_view bytes, std::string& out) {
  if (after_return_ && c != '\n') add_to_word('\\', "\\r", 2, out);
  after_return_ = c == '\r';
  if (after_return_) return;
  if (c == '\n') return end_line(out);
  if (c == ' ' || c == '\t') {
    flush_word(out);
    continues_ = false;
    last_ = 0;
    spaces_ += static_cast<char>(c);
    return;
  }
  const std::string escape = escape_of(c);
  if (escape.empty()) return add_to_word(c, bytes, columns_of(c), out);
  add_to_word('\\', escape, static_cast<int>(escape.size()), out);
}

void TerminalText::add_to_word(uint32_t c, std::string_view bytes, int width, std::string& out) {
  if (breaks_between(last_, c)) {
    flush_word(out);
    continues_ = false;
  }
  word_ += bytes;
  word_width_ += width;
  last_ = c;
  if (continues_ || word_width_ > width_) {  // a word longer than a line cannot be kept together
    flush_word(out);
    continues_ = true;
  }
}

void TerminalText::end_line(std::string& out) {
  flush_word(out);
  if (width_ == 0 || column_ + columns_of(spaces_, column_) <= width_) out += spaces_;
  spaces_.clear();
  out += '\n';
  column_ = 0;
  last_ = 0;
  continues_ = false;
}

void TerminalText::flush_word(std::string& out) {
  if (word_.empty()) return;
  // The cursor's column on a line that the terminal has wrapped itself, also after it became narrower.
  const auto on_screen = [&](int column) { return width_ > 0 && column > width_ ? (column - 1) % width_ + 1 : column; };
  column_ = on_screen(column_);
  const int gap = columns_of(spaces_, column_);
  if (width_ > 0 && !continues_ && column_ > 0 && column_ + gap + word_width_ > width_) {
    out += '\n';
    column_ = 0;
  } else {
    out += spaces_;
    column_ += gap;
  }
  out += word_;
  column_ = on_screen(column_ + word_width_);
  spaces_.clear();
  word_.clear();
  word_width_ = 0;
}

}  // namespace gabbro::cli
