// SentencePiece's precompiled normalization rules: a double array (Aoe 1989) from strings to their replacements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gabbro::text {

class Charsmap {
 public:
  // The blob: u32 size of the array in bytes, the array of little-endian u32, and replacements that end with a zero.
  // Throws bad_input that names `where` for sizes that do not fit. An empty blob has no rules.
  Charsmap(std::string_view blob, const std::string& where);

  struct Match {
    size_t length = 0;  // bytes of the rule's left side; 0: no rule applies
    std::string_view replacement;
  };
  Match longest(std::string_view text) const;   // of the rules that `text` begins with
  Match shortest(std::string_view text) const;  // likewise

 private:
  template <class Visit>
  void for_each_prefix(std::string_view text, Visit visit) const;  // visit(length, replacement) -> go on?

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace gabbro::text
