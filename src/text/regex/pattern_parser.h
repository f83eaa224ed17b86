// Reads the regular expressions that SimplePattern can match. Private to simple_pattern*.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "src/text/unicode/character_set.h"

namespace gabbro::text {

struct PatternItem {
  enum class Kind { kRun, kGroup, kAhead, kNotAhead };
  using Sequence = std::vector<PatternItem>;
  Kind kind = Kind::kRun;
  CharacterSet set;                         // of all but kGroup
  uint32_t min = 1, max = 1;                // kRun: any number; kGroup: 0 or 1 to 1
  bool possessive = false;                  // of kRun
  std::vector<Sequence> alternatives = {};  // of kGroup
};

constexpr uint32_t kNoLimit = UINT32_MAX;

// The alternatives of a pattern in PCRE2's syntax, which PCRE2 compiles; nullopt where something in it is not
// supported.
std::optional<std::vector<PatternItem::Sequence>> parse_simple_pattern(std::string_view pattern);

}  // namespace gabbro::text
