// Facts about the rules of a grammar that its compilation needs.
#pragma once

#include <vector>

#include "src/text/grammar/rules.h"

namespace gabbro::text::grammar {

struct RuleFacts {
  std::vector<bool> ends;      // by rule: a text of finite length matches it
  std::vector<bool> is_empty;  // by rule: the empty text matches it
};

// Throws bad_input for a grammar that no text matches from `root` on, and for left recursion, naming the rule.
RuleFacts find_rule_facts(const Rules& rules, RuleId root);

// Whether a text of finite length, and whether the empty text, matches an expression, by the facts of rules.
bool expr_ends(const Rules& rules, const std::vector<bool>& ends, ExprId id);
bool expr_is_empty(const Rules& rules, const std::vector<bool>& is_empty, ExprId id);

}  // namespace gabbro::text::grammar
