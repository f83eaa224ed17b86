// Added tokens of tokenizer.json: found in a text before, and in what the normalizer makes of it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/jinja/marked_text.h"
#include "src/text/pipeline/double_array.h"
#include "src/text/pipeline/normalizer.h"
#include "src/text/special/special_splitter.h"

namespace gabbro::text {

struct AddedToken {
  int32_t id = kNoToken;
  std::string content;
  bool single_word = false;  // not next to a letter, a digit or an underscore
  bool lstrip = false;       // white space before it in the text belongs to it
  bool rstrip = false;       // ... and after it
  bool normalized = false;   // found in the normalized text
  bool special = false;      // not shown
  bool structural = false;   // structures a conversation: not made of input
  std::string spelling;      // its content, where `normalized` after the normalizer
};

// May be used by several threads at once.
class AddedTokens {
 public:
  // The spellings of `tokens` are filled in. The normalizer may be null.
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer);

  enum class Scope {
    kAll,       // all tokens
    kNoSpecial  // no special ones
  };

  // The tokens that stand in the text as it was given, and the text between: of matches the leftmost, of those the
  // longest.
  std::vector<Fragment> split(std::string_view text, Scope scope) const;
  // As split(), but looks for special and structural tokens only outside of `input`, and for all of them there.
  std::vector<Fragment> split_marked(std::string_view text, Scope scope, std::span<const jinja::InputSpan> input) const;
  // The tokens that stand in a normalized text; after split_marked(), only those that input may become.
  std::vector<Fragment> split_normalized(std::string_view text, Scope scope, bool marked) const;

  bool any_normalized() const { return !normalized_.empty; }
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  struct Finder {  // a trie of the tokens' texts
    DoubleArray trie;
    std::array<bool, 256> first{};
    bool empty = true;
  };
  struct Limits {  // longest matches in bytes
    size_t plain, structural, special;
  };

  Finder make_finder(bool (*wanted)(const AddedToken&), std::string AddedToken::*text) const;
  template <class GetLimits>
  std::vector<Fragment> split(std::string_view text, const Finder& finder, GetLimits get_limits) const;

  std::vector<AddedToken> tokens_;
  Finder raw_, normalized_, marked_;
};

}  // namespace gabbro::text
