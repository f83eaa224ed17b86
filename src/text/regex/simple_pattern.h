// Regular expressions of classes, repeats of them, groups that are not repeated, and lookaheads of one character: what
// nearly all pre-tokenizers are. They are matched by table, several times as fast as PCRE2 does it, with the same
// matches: alternatives in order, repeats greedy, by backtracking.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "src/text/unicode/character_set.h"

namespace gabbro::text {

class SimplePattern {
 public:
  // A pattern in PCRE2's syntax that PCRE2 compiles. nullopt where it has more than the above, or matches empty text.
  static std::optional<SimplePattern> compile(std::string_view pattern);

  enum class Outcome { kFound, kNone, kTooManySteps };
  struct Match {
    size_t begin = 0, end = 0;
  };
  // The first match in `subject` (well-formed UTF-8) at or after `start`, in at most about `steps` steps: characters
  // that are read.
  Outcome find(std::string_view subject, size_t start, uint64_t steps, Match& match) const;

 private:
  friend class PatternLinker;
  static constexpr size_t kMostSets = 32, kMostNodes = 256, kMostOptions = 32;

  enum class Kind : uint8_t { kAccept, kRun, kChoice, kAhead, kNotAhead };
  struct Node {
    Kind kind = Kind::kAccept;
    uint8_t set = 0;                     // of kRun, kAhead, kNotAhead
    bool possessive = false;             // of kRun: takes as many as it can and gives none back
    uint32_t min = 0, max = 0;           // of kRun
    uint32_t next = 0;                   // the node after it; not of kAccept and kChoice
    std::vector<uint32_t> options = {};  // of kChoice
  };
  struct Reader;

  // The characters that a match may begin with.
  struct First {
    std::array<bool, CharacterSet::kAscii> ascii{};
    std::array<bool, kCategories> categories{};
    void add_all();
    void add(const First& other);
    void add(const CharacterSet& set);
  };

  bool index();
  void index_sets();
  size_t match_from(uint32_t index, size_t at, Reader& reader) const;
  size_t run_end(const Node& node, size_t at, size_t& least, Reader& reader) const;
  bool contains(uint8_t set, uint32_t c, const Reader& reader) const;
  bool has(uint8_t set, size_t at, const Reader& reader) const;
  bool may_begin(const Node& node, size_t at, const Reader& reader) const;

  std::vector<CharacterSet> sets_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> options_;              // alternatives of the whole pattern
  std::array<uint32_t, 256> ascii_sets_{};     // the sets that have a character, a bit each; 0 beyond ASCII
  std::array<uint32_t, 256> ascii_options_{};  // the alternatives that may begin with it
  std::array<uint32_t, kCategories> category_sets_{};
  std::array<uint32_t, kCategories> category_options_{};
  uint32_t sets_by_range_ = 0;  // those that categories do not decide
};

}  // namespace gabbro::text
