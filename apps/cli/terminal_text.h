// Text of a model or a file, made safe for a terminal: nothing in it can move the cursor, set a title or the clipboard,
// or reorder what is read. Long lines wrap at words.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "src/text/unicode/utf8_stream.h"

namespace gabbro::cli {

// "\x1b" for the control characters C0, DEL and C1, "\u202e" for the marks that set the direction of text (Unicode
// UAX #9: U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069); empty for all other characters.
std::string escape_of(uint32_t code_point);

// One line that a terminal can show: valid UTF-8, escaped, also \n and \t.
std::string printable(std::string_view text);

// For a stream of text: line breaks and tabs stay, and CR LF is a line break. Pieces may be cut
// anywhere, within characters too.
class TerminalText {
 public:
  // `columns` gives the width of the terminal whenever it is asked, since that may change; 0: lines are not wrapped.
  explicit TerminalText(std::function<int()> columns) : columns_(std::move(columns)) {}

  // Text that can be shown now. The last word is held until it is complete.
  std::string push(std::string_view bytes);
  // The held text, at the end of the output.
  std::string finish();

 private:
  void add_text(std::string_view text, std::string& out);
  void add(uint32_t code_point, std::string_view bytes, std::string& out);
  void add_to_word(uint32_t code_point, std::string_view bytes, int width, std::string& out);
  void end_line(std::string& out);
  void flush_word(std::string& out);

  void measure();

  std::function<int()> columns_;
  int width_ = 0;  // columns_() at the start of this piece; 0: lines are not wrapped
  text::Utf8Stream utf8_;
  std::string spaces_, word_;  // not yet shown
  int word_width_ = 0;
  int column_ = 0;             // of the cursor, 0 at the start of a line
  uint32_t last_ = 0;          // character of word_
  bool continues_ = false;     // the beginning of the word was shown already: no break before its rest
  bool after_return_ = false;  // a CR that may belong to a line break
};

}  // namespace gabbro::cli
