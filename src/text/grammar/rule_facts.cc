#include "src/text/grammar/rule_facts.h"

#include <algorithm>

#include "src/base/error.h"

namespace gabbro::text::grammar {
namespace {

// Calls visit(rule) for the rules that `id` refers to; `leftmost`: only those that a match may begin with.
template <class Visit>
void visit_rules(const Rules& rules, const std::vector<bool>* leftmost, ExprId id, const Visit& visit) {
  const Expr& expr = rules.expr(id);
  switch (expr.kind) {
    case Expr::Kind::kBytes:
    case Expr::Kind::kLiteral:
    case Expr::Kind::kGraph:  // its labels hold no rules
      return;
    case Expr::Kind::kRule:
      return visit(expr.index);
    case Expr::Kind::kSequence:
      for (const ExprId part : expr.parts) {
        visit_rules(rules, leftmost, part, visit);
        if (leftmost != nullptr && !expr_is_empty(rules, *leftmost, part)) return;
      }
      return;
    case Expr::Kind::kChoice:
    case Expr::Kind::kRepeat:
      for (const ExprId part : expr.parts) visit_rules(rules, leftmost, part, visit);
      return;
  }
}

// Sets facts[rule] = fact(body) until nothing changes: a rule is looked at again when a rule of its body changed.
template <class Fact>
std::vector<bool> fixed_point(const Rules& rules, const Fact& fact) {
  const size_t count = rules.rule_count();
  std::vector<bool> facts(count);
  std::vector<std::vector<RuleId>> users(count);
  std::vector<RuleId> open;
  for (RuleId rule = 0; rule < count; ++rule) {
    visit_rules(rules, nullptr, rules.body(rule), [&](RuleId used) { users[used].push_back(rule); });
    open.push_back(rule);
  }
  while (!open.empty()) {
    rules.check_time();
    const RuleId rule = open.back();
    open.pop_back();
    if (facts[rule] || !fact(facts, rules.body(rule))) continue;
    facts[rule] = true;
    open.insert(open.end(), users[rule].begin(), users[rule].end());
  }
  return facts;
}

enum class Mark : uint8_t { kNew, kOpen, kDone };

// A depth-first search for a cycle, without recursion: chains of rules may be long.
void refuse_left_recursion(const Rules& rules, const std::vector<bool>& is_empty) {
  std::vector<Mark> marks(rules.rule_count(), Mark::kNew);
  std::vector<std::vector<RuleId>> first(rules.rule_count());
  for (RuleId rule = 0; rule < rules.rule_count(); ++rule)
    visit_rules(rules, &is_empty, rules.body(rule), [&](RuleId used) { first[rule].push_back(used); });
  for (RuleId root = 0; root < rules.rule_count(); ++root) {
    if (marks[root] != Mark::kNew) continue;
    std::vector<std::pair<RuleId, size_t>> path{{root, 0}};
    marks[root] = Mark::kOpen;
    while (!path.empty()) {
      auto& [rule, next] = path.back();
      if (next == first[rule].size()) {
        marks[rule] = Mark::kDone;
        path.pop_back();
        continue;
      }
      const RuleId used = first[rule][next++];
      if (marks[used] == Mark::kOpen)
        throw bad_input("the rule '{}' is left-recursive: it begins with itself", rules.name(used));
      if (marks[used] == Mark::kDone) continue;
      marks[used] = Mark::kOpen;
      path.emplace_back(used, 0);
    }
  }
}

}  // namespace

bool expr_ends(const Rules& rules, const std::vector<bool>& ends, ExprId id) {
  const Expr& expr = rules.expr(id);
  const auto part_ends = [&](ExprId part) { return expr_ends(rules, ends, part); };
  switch (expr.kind) {
    case Expr::Kind::kBytes:
    case Expr::Kind::kLiteral:
    case Expr::Kind::kGraph:
      return true;
    case Expr::Kind::kSequence:
      return std::ranges::all_of(expr.parts, part_ends);
    case Expr::Kind::kChoice:
      return std::ranges::any_of(expr.parts, part_ends);
    case Expr::Kind::kRepeat:
      return expr.least == 0 || part_ends(expr.parts.front());
    case Expr::Kind::kRule:
      return ends[expr.index];
  }
  return false;
}

bool expr_is_empty(const Rules& rules, const std::vector<bool>& is_empty, ExprId id) {
  const Expr& expr = rules.expr(id);
  const auto part_is_empty = [&](ExprId part) { return expr_is_empty(rules, is_empty, part); };
  switch (expr.kind) {
    case Expr::Kind::kBytes:
    case Expr::Kind::kLiteral:
      return false;
    case Expr::Kind::kGraph:
      return rules.graph_at(expr.index).states.front().accepts;
    case Expr::Kind::kSequence:
      return std::ranges::all_of(expr.parts, part_is_empty);
    case Expr::Kind::kChoice:
      return std::ranges::any_of(expr.parts, part_is_empty);
    case Expr::Kind::kRepeat:
      return expr.least == 0 || part_is_empty(expr.parts.front());
    case Expr::Kind::kRule:
      return is_empty[expr.index];
  }
  return false;
}

RuleFacts find_rule_facts(const Rules& rules, RuleId root) {
  RuleFacts facts;
  facts.ends =
      fixed_point(rules, [&](const std::vector<bool>& known, ExprId body) { return expr_ends(rules, known, body); });
  if (!facts.ends[root]) throw bad_input("no text matches the grammar: its rule '{}' can never end", rules.name(root));
  facts.is_empty = fixed_point(
      rules, [&](const std::vector<bool>& known, ExprId body) { return expr_is_empty(rules, known, body); });
  refuse_left_recursion(rules, facts.is_empty);
  return facts;
}

}  // namespace gabbro::text::grammar
