#include "src/jinja/wrap.h"

#include <algorithm>

#include "src/jinja/utf8.h"

namespace gabbro::jinja {
namespace {

using Chunks = std::vector<std::u32string_view>;

// The whitespace that textwrap knows.
bool wraps_at(char32_t c) { return (c >= 0x09 && c <= 0x0d) || c == ' '; }

bool is_letter(char32_t c) { return is_word(c) && !is_decimal(c); }

// A hyphen at `at` may end a chunk: it stands between two letters on each side ("well-known", "a-b" not).
bool breaks_after_hyphen(std::u32string_view word, size_t at) {
  if (at + 2 >= word.size() || at < 2) return false;
  return is_letter(word[at - 1]) && is_letter(word[at - 2]) && is_letter(word[at + 1]) &&
         (is_letter(word[at + 2]) || (word[at + 2] == '-' && at + 3 < word.size() && is_letter(word[at + 3])));
}

void split_word(std::u32string_view word, bool on_hyphens, Chunks* chunks) {
  size_t begin = 0;
  for (size_t i = 0; on_hyphens && i < word.size(); ++i) {
    if (word[i] != '-') continue;
    size_t end = i;
    while (end < word.size() && word[end] == '-') ++end;
    const bool dash = end - i >= 2 && i > begin && end < word.size() && is_word(word[end]);  // an em dash stands alone
    if (dash) {
      chunks->emplace_back(word.substr(begin, i - begin));
      chunks->emplace_back(word.substr(i, end - i));
      begin = end;
    } else if (end - i == 1 && breaks_after_hyphen(word, i)) {
      chunks->emplace_back(word.substr(begin, end - begin));
      begin = end;
    }
    i = end - 1;
  }
  if (begin < word.size()) chunks->emplace_back(word.substr(begin));
}

Chunks split_chunks(std::u32string_view text, bool on_hyphens) {
  Chunks chunks;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (end < text.size() && wraps_at(text[end]) == wraps_at(text[begin])) ++end;
    if (wraps_at(text[begin])) {
      chunks.emplace_back(text.substr(begin, end - begin));
    } else {
      split_word(text.substr(begin, end - begin), on_hyphens, &chunks);
    }
    begin = end;
  }
  return chunks;
}

bool is_blank(std::u32string_view chunk) { return std::all_of(chunk.begin(), chunk.end(), is_space); }

}  // namespace

std::vector<std::string> wrap_line(Runtime& runtime, std::string_view line, const WrapStyle& style) {
  runtime.reserve_text(line.size() * (sizeof(char32_t) + 1));
  const std::u32string points = decode(line);
  Chunks chunks = split_chunks(points, style.break_on_hyphens);
  std::reverse(chunks.begin(), chunks.end());
  const auto width = static_cast<size_t>(style.width);
  std::vector<std::string> lines;
  while (!chunks.empty()) {
    runtime.step();
    Chunks current;
    size_t length = 0;
    if (!lines.empty() && is_blank(chunks.back())) chunks.pop_back();
    while (!chunks.empty() && length + chunks.back().size() <= width) {
      length += chunks.back().size();
      current.push_back(chunks.back());
      chunks.pop_back();
    }
    if (!chunks.empty() && chunks.back().size() > width) {  // too long for any line
      if (style.break_long_words) {
        size_t space = width - length;
        std::u32string_view& chunk = chunks.back();
        if (style.break_on_hyphens && chunk.size() > space && space > 0) {
          const size_t hyphen = chunk.rfind(U'-', space - 1);
          const bool useful = hyphen != std::u32string::npos && hyphen > 0 &&
                              std::any_of(chunk.begin(), chunk.begin() + static_cast<std::ptrdiff_t>(hyphen),
                                          [](char32_t c) { return c != '-'; });
          if (useful) space = hyphen + 1;
        }
        current.push_back(chunk.substr(0, space));
        chunk.remove_prefix(space);
      } else if (current.empty()) {
        current.push_back(chunks.back());
        chunks.pop_back();
      }
    }
    if (!current.empty() && is_blank(current.back())) current.pop_back();
    if (current.empty()) continue;
    std::string text;
    for (const std::u32string_view chunk : current) text += encode(chunk);
    lines.push_back(std::move(text));
  }
  return lines;
}

}  // namespace gabbro::jinja
