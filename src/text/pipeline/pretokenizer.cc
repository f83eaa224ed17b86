#include "src/text/pipeline/pretokenizer.h"

#include <utf8proc.h>

#include <algorithm>

#include "src/base/error.h"
#include "src/text/unicode/utf8.h"

namespace gabbro::text {
namespace {

const PreTokenizerRule& rule_of(std::string_view name) {
  for (const PreTokenizerRule& rule : pretokenizer_rules()) {
    if (std::find(rule.names.begin(), rule.names.end(), name) != rule.names.end()) return rule;
  }
  throw bad_input("tokenizer.ggml.pre: pre-tokenizer '{}' is not supported", name);
}

bool is_decimal(utf8proc_category_t category) { return category == UTF8PROC_CATEGORY_ND; }

bool is_number(utf8proc_category_t category) {
  return is_decimal(category) || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

// \w of the regular expressions of `tokenizers` (Oniguruma): letters, marks, numbers of all kinds, connecting
// punctuation.
bool is_word(utf8proc_category_t category) {
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_PC);
}

// A surrogate, which repair_utf8 lets through, is a broken character to PCRE2. U+E000 has the same length and, like a
// surrogate, none of the properties that patterns ask for.
void hide_surrogates(std::string& text) {
  for (size_t at = text.find('\xED'); at != text.npos; at = text.find('\xED', at + 1)) {
    if (at + 2 < text.size() && static_cast<unsigned char>(text[at + 1]) >= 0xA0) text.replace(at, 3, "\xEE\x80\x80");
  }
}

}  // namespace

PreTokenizer::PreTokenizer(std::string_view name) : rule_(&rule_of(name)) {
  for (const PreTokenizerStep& step : rule_->steps) {
    if (!step.pattern.empty()) regexes_.emplace_back(step.pattern);
  }
}

PreTokenizer::Splitter::Splitter(const PreTokenizer& owner) : owner_(&owner) {
  matchers_.reserve(owner.regexes_.size());
  for (const Regex& regex : owner.regexes_) matchers_.emplace_back(regex);
}

const std::vector<size_t>& PreTokenizer::Splitter::split(std::string_view text) {
  ends_.clear();
  if (text.empty()) return ends_;
  if (text.find('\xED') != text.npos) {
    subject_ = text;
    hide_surrogates(subject_);
    text = subject_;
  }
  ends_.push_back(text.size());
  auto matcher = matchers_.begin();
  for (const PreTokenizerStep& step : owner_->rule().steps) {
    next_.clear();
    if (step.digits == DigitGroups::kNone) {
      isolate_matches(text, *matcher++);
    } else {
      size_t begin = 0;
      for (const size_t end : ends_) {
        group_digits(text, begin, end, step.digits, next_);
        begin = end;
      }
    }
    ends_.swap(next_);
  }
  return ends_;
}

// Each piece is a separate subject: patterns must not look beyond it.
void PreTokenizer::Splitter::isolate_matches(std::string_view text, Regex::Matcher& matcher) {
  size_t begin = 0;
  for (const size_t end : ends_) {
    const std::string_view piece = text.substr(begin, end - begin);
    size_t done = 0;
    while (done < piece.size() && matcher.find(piece, done)) {
      if (matcher.begin() > done) next_.push_back(begin + matcher.begin());
      next_.push_back(begin + matcher.end());
      done = matcher.end();
    }
    if (done < piece.size()) next_.push_back(end);
    begin = end;
  }
}

void group_digits(std::string_view text, size_t begin, size_t end, DigitGroups groups, std::vector<size_t>& ends) {
  std::vector<size_t> digits;  // where each digit of the present run begins
  size_t last = begin;         // the last end that was reported
  const auto cut = [&](size_t at) {
    if (at > last) ends.push_back(last = at);
  };
  for (size_t at = begin; at <= end;) {
    const bool more = at < end;
    const Character character = more ? read_utf8(text.substr(0, end), at) : Character{};
    const auto category =
        more ? utf8proc_category(static_cast<utf8proc_int32_t>(character.code_point)) : UTF8PROC_CATEGORY_CN;
    if (more && (groups == DigitGroups::kNumbers ? is_number(category) : is_decimal(category))) {
      digits.push_back(at);
    } else if (!digits.empty()) {
      const bool grouped = groups != DigitGroups::kWholeDecimals || !is_word(category);
      if (grouped) {
        // SuperBPE cuts before groups that are whole; the others isolate an incomplete first group as well.
        const size_t first = digits.size() % 3;
        if (first != 0 && groups != DigitGroups::kDecimals) cut(digits.front());
        for (size_t i = first; i < digits.size(); i += 3) cut(digits[i]);
        if (groups != DigitGroups::kDecimals) cut(at);
      }
      digits.clear();
    }
    at += more ? std::max<size_t>(character.length, 1) : 1;
  }
  cut(end);
}

}  // namespace gabbro::text
