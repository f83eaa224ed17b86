#include "src/text/regex/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

#include "src/base/error.h"
#include "src/text/regex/oniguruma.h"
#include "src/text/unicode/utf8.h"

namespace gabbro::text {
namespace {

// PCRE2's own \s also takes U+180E, which Unicode took out of White_Space in version 6.3.
constexpr std::string_view kWhiteSpace =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

constexpr size_t kLongestPattern = size_t{1} << 16;
constexpr uint32_t kFileSteps = 1000000;  // of one match; Oniguruma's own limit is ten times as large
constexpr uint32_t kFileHeap = 64 << 10;  // KiB

std::string spell_out_white_space(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 's') {
        out += in_class ? std::string(kWhiteSpace) : "[" + std::string(kWhiteSpace) + "]";
      } else if (next == 'S') {
        out += "[^" + std::string(kWhiteSpace) + "]";
      } else {
        out += {c, next};
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

std::string describe(int code) {
  std::array<char, 160> text{};
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text.data()), text.size());
  return text.data();
}

}  // namespace

Regex::Regex(const std::string& pattern) : pattern_(pattern) { compile(spell_out_white_space(pattern), 0, true); }

Regex Regex::from_file(std::string_view pattern, const std::string& where) {
  if (pattern.size() > kLongestPattern) throw bad_input("{}: a pattern of {} bytes is too long", where, pattern.size());
  if (!is_valid_utf8(pattern)) throw bad_input("{}: the pattern is not UTF-8", where);
  Regex regex;
  regex.pattern_ = pattern;
  regex.where_ = where;
  regex.compile(translate_oniguruma(pattern, where), PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, false);
  return regex;
}

void Regex::compile(const std::string& spelled, uint32_t options, bool trusted) {
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(),
                                   PCRE2_UTF | PCRE2_UCP | options, &error, &at, context);
  pcre2_compile_context_free(context);
  if (code == nullptr) {
    if (trusted) throw failed("regular expression '{}': {} at byte {}", pattern_, describe(error), at);
    throw bad_input("{}: regular expression '{}': {}", where_, pattern_, describe(error));
  }
  code_ = code;
  jit_ = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
  // Our own patterns need a number of steps linear in the text, so their limit need only end a mistake of ours.
  pcre2_match_context* limits = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(limits, trusted ? UINT32_MAX : kFileSteps);
  if (!trusted) pcre2_set_heap_limit(limits, kFileHeap);
  limits_ = limits;
  simple_ = SimplePattern::compile(spelled);
}

Regex::~Regex() {
  pcre2_code_free(static_cast<pcre2_code*>(code_));
  pcre2_match_context_free(static_cast<pcre2_match_context*>(limits_));
}

Regex::Regex(Regex&& other) noexcept
    : pattern_(std::move(other.pattern_)),
      where_(std::move(other.where_)),
      code_(std::exchange(other.code_, nullptr)),
      limits_(std::exchange(other.limits_, nullptr)),
      jit_(other.jit_),
      simple_(std::move(other.simple_)) {}

Regex::Matcher::Matcher(const Regex& regex) : regex_(&regex) {}

Regex::Matcher::~Matcher() { pcre2_match_data_free(static_cast<pcre2_match_data*>(data_)); }

Regex::Matcher::Matcher(Matcher&& other) noexcept
    : regex_(other.regex_),
      data_(std::exchange(other.data_, nullptr)),
      match_(other.match_),
      calls_(other.calls_),
      started_(other.started_) {}

void Regex::Matcher::check_time(size_t subject_bytes) {
  // Tokenizing takes less than 1 us a byte; a pattern that needs hundreds of times as long is meant to.
  constexpr auto kPatience = std::chrono::seconds(5);
  constexpr auto kPerByte = std::chrono::microseconds(100);
  constexpr uint32_t kCallsPerCheck = 64;
  if (calls_++ % kCallsPerCheck != 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (calls_ == 1) started_ = now;
  if (now - started_ > kPatience + kPerByte * (subject_bytes + calls_))
    throw bad_input("{}: regular expression '{}' takes too long", regex_->where_, regex_->pattern_);
}

bool Regex::Matcher::find(std::string_view subject, size_t start) {
  constexpr uint64_t kStepsPerByte = 8;
  const bool trusted = regex_->where_.empty();
  if (!trusted) check_time(subject.size());
  if (!regex_->simple_) return find_by_pcre(subject, start);
  const uint64_t steps = trusted ? UINT64_MAX : kFileSteps + kStepsPerByte * subject.size();
  const auto outcome = regex_->simple_->find(subject, start, steps, match_);
  // PCRE2 needs fewer steps, or says so.
  if (outcome == SimplePattern::Outcome::kTooManySteps) return find_by_pcre(subject, start);
  return outcome == SimplePattern::Outcome::kFound;
}

bool Regex::Matcher::find_by_pcre(std::string_view subject, size_t start) {
  const bool trusted = regex_->where_.empty();
  if (data_ == nullptr) data_ = pcre2_match_data_create(1, nullptr);
  const auto* code = static_cast<const pcre2_code*>(regex_->code_);
  auto* data = static_cast<pcre2_match_data*>(data_);
  auto* limits = static_cast<pcre2_match_context*>(regex_->limits_);
  const auto* text = reinterpret_cast<PCRE2_SPTR>(subject.data());
  int result = PCRE2_ERROR_JIT_STACKLIMIT;
  if (regex_->jit_) result = pcre2_jit_match(code, text, subject.size(), start, 0, data, limits);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter keeps its state on the heap
    result = pcre2_match(code, text, subject.size(), start, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, limits);
  }
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0 && trusted) throw failed("regular expression '{}': {}", regex_->pattern_, describe(result));
  if (result < 0)
    throw bad_input("{}: regular expression '{}': {}", regex_->where_, regex_->pattern_, describe(result));
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data);
  match_ = {bounds[0], bounds[1]};
  if (begin() < start || end() < begin())  // \K in a lookaround
    throw bad_input("{}: regular expression '{}' matches backwards", regex_->where_, regex_->pattern_);
  return true;
}

}  // namespace gabbro::text
