#include "src/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

#include "src/base/error.h"

namespace gabbro::text {
namespace {

// PCRE2's own \s also takes U+180E, which Unicode took out of White_Space in version 6.3.
constexpr std::string_view kWhiteSpace =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

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

Regex::Regex(const std::string& pattern) : pattern_(pattern) {
  const std::string spelled = spell_out_white_space(pattern);
  int error = 0;
  PCRE2_SIZE where = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(), PCRE2_UTF | PCRE2_UCP,
                                   &error, &where, nullptr);
  if (code == nullptr) throw failed("regular expression '{}': {} at byte {}", pattern, describe(error), where);
  code_ = code;
  jit_ = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
  // The patterns are ours and need a number of steps linear in the text, so the limit need only end a mistake of ours.
  pcre2_match_context* limits = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(limits, UINT32_MAX);
  limits_ = limits;
}

Regex::~Regex() {
  pcre2_code_free(static_cast<pcre2_code*>(code_));
  pcre2_match_context_free(static_cast<pcre2_match_context*>(limits_));
}

Regex::Regex(Regex&& other) noexcept
    : pattern_(std::move(other.pattern_)),
      code_(std::exchange(other.code_, nullptr)),
      limits_(std::exchange(other.limits_, nullptr)),
      jit_(other.jit_) {}

Regex::Matcher::Matcher(const Regex& regex) : regex_(&regex), data_(pcre2_match_data_create(1, nullptr)) {}

Regex::Matcher::~Matcher() { pcre2_match_data_free(static_cast<pcre2_match_data*>(data_)); }

Regex::Matcher::Matcher(Matcher&& other) noexcept : regex_(other.regex_), data_(std::exchange(other.data_, nullptr)) {}

bool Regex::Matcher::find(std::string_view subject, size_t start) {
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
  if (result < 0) throw failed("regular expression '{}': {}", regex_->pattern_, describe(result));
  return true;
}

size_t Regex::Matcher::begin() const { return pcre2_get_ovector_pointer(static_cast<pcre2_match_data*>(data_))[0]; }
size_t Regex::Matcher::end() const { return pcre2_get_ovector_pointer(static_cast<pcre2_match_data*>(data_))[1]; }

}  // namespace gabbro::text
