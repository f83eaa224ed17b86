// Text between two texts ("fill in the middle"): models that were trained for it have tokens around the parts.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "src/text/tokenizer.h"

namespace gabbro::text {

struct FillInTokens {
  int32_t prefix = kNoToken, suffix = kNoToken, middle = kNoToken;
  int32_t repository = kNoToken, file = kNoToken;  // before the names of a project and of its files
  bool are_known() const { return prefix != kNoToken && suffix != kNoToken && middle != kNoToken; }
};

// Finds them by the names that model families use.
FillInTokens fill_in_tokens(const Tokenizer& tokenizer);

struct FillInText {
  std::string_view before, after;                                    // the text that is to be filled in
  std::vector<std::pair<std::string_view, std::string_view>> files;  // names and texts of other files
};

// Other files first; then prefix, suffix, and the token that the middle follows. Throws bad_input for a tokenizer
// without the tokens.
std::vector<int32_t> fill_in_prompt(const Tokenizer& tokenizer, const FillInText& given);

}  // namespace gabbro::text
