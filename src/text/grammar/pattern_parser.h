// The parser of regular expressions; pattern.h is its public side.
#pragma once

#include <string>
#include <string_view>

#include "src/text/grammar/pattern.h"

namespace gabbro::text::grammar {

[[noreturn]] void refuse_pattern(std::string_view regex, size_t at, std::string_view why);

class PatternParser {
 public:
  explicit PatternParser(std::string_view regex) : regex_(regex), text_(characters_of(regex)) {}
  Pattern parse();

 private:
  [[noreturn]] void refuse(std::string_view why) const { refuse_pattern(regex_, at_, why); }
  bool ends() const { return at_ >= text_.size(); }
  char32_t peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : U'\0'; }
  bool skip(char32_t c) {
    if (ends() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Pattern choice();
  Pattern sequence();
  Pattern atom();
  Pattern group();
  Pattern quantified(Pattern part);
  bool read_counts(int32_t& least, int32_t& most);
  int32_t number(size_t& at) const;
  CharSet escape(bool in_class);
  uint32_t hex(size_t digits);
  uint32_t control_letter();
  uint32_t code_point();
  CharSet character_class();

  std::string_view regex_;
  std::u32string text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace gabbro::text::grammar
