// Cuts text into the words that byte pair encoding never merges across, as named by tokenizer.ggml.pre.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/text/pipeline/pretokenizer_table.h"
#include "src/text/regex/regex.h"

namespace gabbro::text {

class PreTokenizer {
 public:
  // Throws bad_input that names an unknown pre-tokenizer.
  explicit PreTokenizer(std::string_view name);

  const PreTokenizerRule& rule() const { return *rule_; }

  // One thread's working memory.
  class Splitter {
   public:
    explicit Splitter(const PreTokenizer& owner);
    // The ends of the words of `text` (well-formed UTF-8, but surrogates are let through), ascending.
    const std::vector<size_t>& split(std::string_view text);

   private:
    void isolate_matches(std::string_view text, Regex::Matcher& matcher);

    const PreTokenizer* owner_;
    std::vector<Regex::Matcher> matchers_;  // one per regular expression, in order
    std::vector<size_t> ends_, next_;
    std::string subject_;
  };

 private:
  const PreTokenizerRule* rule_;
  std::vector<Regex> regexes_;  // of the steps that have one, in order
};

// Ends of the pieces of text[begin, end), with digits grouped, appended to `ends`.
void group_digits(std::string_view text, size_t begin, size_t end, DigitGroups groups, std::vector<size_t>& ends);

}  // namespace gabbro::text
