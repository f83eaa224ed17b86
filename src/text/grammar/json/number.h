// Decimal numbers of JSON as patterns: ranges and multiples, exactly, without floating point.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "src/text/grammar/char_dfa.h"

namespace gabbro::text::grammar {

struct Decimal {
  bool negative = false;
  std::string whole = "0";  // no leading zeros
  std::string fraction{};   // no trailing zeros

  bool is_zero() const { return whole == "0" && fraction.empty(); }
  bool is_whole() const { return fraction.empty(); }
};
Decimal decimal_of(const nlohmann::ordered_json& number);
int compare(const Decimal& a, const Decimal& b);  // < 0, 0, > 0

struct Bound {
  Decimal value;
  bool exclusive = false;
};
struct NumberRange {
  bool integer = false;
  std::optional<Bound> least{}, most{};
  std::vector<Decimal> multiples_of{};
};

// Numbers within the range. Without bounds and multiples an exponent is allowed, unless it is an integer. Throws
// bad_input for a multiple that needs too large an automaton.
ExprId number_expr(Rules& rules, const NumberRange& range);

}  // namespace gabbro::text::grammar
