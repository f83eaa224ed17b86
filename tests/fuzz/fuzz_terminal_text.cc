// However bytes are cut into pieces and however wide the terminal is, the same text is shown, without a character that
// a terminal obeys; lines of words that fit are no longer than the terminal is wide.
#include "apps/cli/terminal_text.h"

#include <cstdlib>

#include "src/text/unicode/utf8.h"
#include "tests/fuzz/input.h"

using namespace gabbro;

namespace {

std::string without_spaces(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' && c != '\n' && c != '\t') out += c;
  }
  return out;
}

void require(bool fact) {
  if (!fact) std::abort();
}

// Lengths in bytes of the longest line and of the longest word.
std::pair<size_t, size_t> longest(const std::string& text) {
  size_t line = 0, word = 0, lines = 0, words = 0;
  for (const char c : text) {
    line = c == '\n' ? 0 : line + 1;
    word = c == '\n' || c == ' ' ? 0 : word + 1;
    lines = std::max(lines, line);
    words = std::max(words, word);
  }
  return {lines, words};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  fuzz::Input data(bytes, size);
  const auto step = static_cast<size_t>(data.number(1, 9));
  const auto columns = static_cast<int>(data.number(0, 60));
  const std::string text = data.rest();

  cli::TerminalText whole([] { return 0; }), cut([&] { return columns; });
  std::string expected = whole.push(text);
  expected += whole.finish();
  std::string out;
  for (size_t at = 0; at < text.size(); at += step) out += cut.push(std::string_view(text).substr(at, step));
  out += cut.finish();

  require(without_spaces(out) == without_spaces(expected));
  bool is_ascii = true;
  for (size_t at = 0; at < out.size();) {
    const text::Character c = text::read_utf8(out, at);
    require(c.length > 0);
    require(c.code_point == '\n' || c.code_point == '\t' || cli::escape_of(c.code_point).empty());
    is_ascii &= c.code_point < 0x80 && c.code_point != '\t';
    at += c.length;
  }
  // Indents and spaces at the end of the text stay unchanged at any width.
  const auto [line, word] = longest(out);
  const bool has_words = out.find("  ") == std::string::npos && !out.ends_with(' ') &&
                         out.find("\n ") == std::string::npos && !out.starts_with(' ');
  const auto width = static_cast<size_t>(columns);
  if (is_ascii && has_words && columns >= 10 && word <= width) require(line <= width);
  return 0;
}
