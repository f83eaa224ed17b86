// Regular expressions of tokenizer.json are in Oniguruma's syntax for Ruby; PCRE2 runs them after a translation.
#pragma once

#include <string>
#include <string_view>

namespace gabbro::text {

// `pattern`, which is well-formed UTF-8, for PCRE2 with PCRE2_UTF, PCRE2_UCP and PCRE2_MULTILINE: \s \w \h \b and
// \p{...} as Oniguruma defines them, (?m) as a dot that matches line ends, unions and intersections of classes. Throws
// bad_input that names `where` for what has no translation.
std::string translate_oniguruma(std::string_view pattern, const std::string& where);

}  // namespace gabbro::text
