// Deterministic automata over characters, for what expressions cannot say: texts that match two patterns, or that are
// none of a list.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/text/grammar/pattern.h"

namespace gabbro::text::grammar {

class CharDfa {
 public:
  struct Edge {
    uint32_t first, last, to;
  };
  struct State {
    std::vector<Edge> edges{};  // ascending, apart from each other
    bool accepts = false;
  };

  // All of these throw bad_input for an automaton with too many states, and Rules::check_time().
  static CharDfa of_pattern(const Rules& rules, const Pattern& pattern);
  static CharDfa of_length(const Rules& rules, int32_t least, int32_t most);
  static CharDfa of_texts(const Rules& rules, std::span<const std::u32string> texts);
  static CharDfa of_states(std::vector<State> states);
  CharDfa intersect(const Rules& rules, const CharDfa& other) const;
  CharDfa complement() const;

  bool is_empty() const { return states_.empty(); }  // no text
  bool accepts(std::u32string_view text) const;
  ExprId expr(Rules& rules, Encoding encoding) const;
  const std::vector<State>& states() const { return states_; }

 private:
  void trim();

  std::vector<State> states_;  // the first one is the start; each leads to one that accepts
};

// Texts that nowhere contain `part`.
CharDfa texts_without(const Rules& rules, std::string_view part);
CharDfa texts_without(const Rules& rules, Pattern part);

}  // namespace gabbro::text::grammar
