#include "src/models/config/name_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"

namespace gabbro::llm {
namespace {

// Python's \Z is the end of the text, which PCRE2 calls \z.
std::string spelled_for_pcre(const std::string& expression) {
  std::string out;
  for (size_t at = 0; at < expression.size(); ++at) {
    out += expression[at];
    if (expression[at] != '\\' || at + 1 == expression.size()) continue;
    ++at;
    out += expression[at] == 'Z' ? 'z' : expression[at];
  }
  return out;
}

}  // namespace

NamePattern::NamePattern(const std::string& expression, const std::string& where) : where_(where) {
  const std::string spelled = spelled_for_pcre(expression);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* const code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(),
                                         PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code == nullptr) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    throw bad_input("{} is not a regular expression: {}", where, reinterpret_cast<const char*>(text.data()));
  }
  code_ = std::shared_ptr<void>(code, [](void* pointer) { pcre2_code_free(static_cast<pcre2_code*>(pointer)); });
}

bool NamePattern::matches(std::string_view name) const {
  constexpr uint32_t kMostSteps = 1'000'000;  // names have some hundred bytes
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> limits(
      pcre2_match_context_create(nullptr), pcre2_match_context_free);
  pcre2_set_match_limit(limits.get(), kMostSteps);
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
      pcre2_match_data_create_from_pattern(code, nullptr), pcre2_match_data_free);
  const int result = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(), 0, PCRE2_ANCHORED,
                                 data.get(), limits.get());
  if (result >= 0) return true;
  if (result == PCRE2_ERROR_NOMATCH) return false;
  throw bad_input("{} takes too long to match {}", where_, quote(name));
}

}  // namespace gabbro::llm
