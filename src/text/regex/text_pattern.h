// A pattern of Replace and Split: a string or a regular expression.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/json_node.h"
#include "src/text/regex/regex.h"

namespace gabbro::text {

class TextPattern {
 public:
  explicit TextPattern(std::string text) : text_(std::move(text)) {}
  explicit TextPattern(Regex regex) : regex_(std::make_shared<const Regex>(std::move(regex))) {}

  // f(begin, end, is_match) for the matches and what is between them, in order. As in `tokenizers`, an empty match does
  // not follow another match at once.
  template <class F>
  void for_each(std::string_view text, F f) const {
    if (!regex_) return for_each_text(text, f);
    Regex::Matcher matcher(*regex_);
    for_each(text, matcher, f);
  }
  // As above, with a matcher of regex() that is kept between calls.
  template <class F>
  static void for_each(std::string_view text, Regex::Matcher& matcher, F f);

  const Regex* regex() const { return regex_.get(); }  // null for a string
  const std::string& text() const { return text_; }

 private:
  template <class F>
  void for_each_text(std::string_view text, F f) const;

  std::string text_;
  std::shared_ptr<const Regex> regex_;
};

// {"String": ...} or {"Regex": ...}. Throws bad_input that names the path.
TextPattern make_pattern(const JsonNode& node);

size_t next_character(std::string_view text, size_t at);  // the begin of the character after the one at text[at]

template <class F>
void TextPattern::for_each(std::string_view text, Regex::Matcher& matcher, F f) {
  size_t done = 0, from = 0;
  bool matched = false;  // a match ends at `done`
  while (from <= text.size() && matcher.find(text, from)) {
    const size_t begin = matcher.begin(), end = matcher.end();
    if (begin == end && matched && begin == done) {
      if (from >= text.size()) break;
      from = next_character(text, from);
      continue;
    }
    if (begin > done) f(done, begin, false);
    f(begin, end, true);
    done = from = end;
    matched = true;
  }
  if (done < text.size()) f(done, text.size(), false);
}

template <class F>
void TextPattern::for_each_text(std::string_view text, F f) const {
  size_t done = 0;
  if (!text_.empty()) {
    for (size_t at = text.find(text_); at != text.npos; at = text.find(text_, done)) {
      if (at > done) f(done, at, false);
      f(at, at + text_.size(), true);
      done = at + text_.size();
    }
  }
  if (done < text.size()) f(done, text.size(), false);
}

}  // namespace gabbro::text
