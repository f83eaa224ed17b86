#include "src/text/grammar/rules.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/base/processor_time.h"

namespace gabbro::text::grammar {
namespace {

// The texts [begin, end), sorted, which agree in their first `depth` bytes, below the state `at`.
void add_texts(Rules& rules, Graph& graph, uint32_t at, const std::vector<std::string>& texts, size_t begin, size_t end,
               size_t depth) {
  while (begin < end) {
    if (texts[begin].size() == depth) {
      graph.states[at].accepts = true;
      ++begin;
      continue;
    }
    size_t last = begin + 1;
    while (last < end && texts[last].size() > depth && texts[last][depth] == texts[begin][depth]) ++last;
    // A run that all these texts share is one edge, so that long texts do not nest deeply.
    size_t length = depth + 1;
    while (length < texts[begin].size() && texts[begin].compare(0, length + 1, texts[last - 1], 0, length + 1) == 0)
      ++length;
    const auto next = static_cast<uint32_t>(graph.states.size());
    graph.states.emplace_back();
    graph.states[at].edges.push_back({rules.literal(texts[begin].substr(depth, length - depth)), next});
    add_texts(rules, graph, next, texts, begin, last, length);
    begin = last;
  }
}

}  // namespace

Rules::Rules(Limits limits)
    : limits_(limits), deadline_(thread_processor_seconds() + std::chrono::duration<double>(limits.time).count()) {}

ByteSet byte_range(uint8_t first, uint8_t last) {
  ByteSet set;
  for (size_t byte = first; byte <= last; ++byte) set.set(byte);
  return set;
}

void Rules::check_time() const {
  if (thread_processor_seconds() > deadline_)
    throw bad_input("the grammar took longer than {} ms to compile", limits_.time.count());
}

ExprId Rules::add(Expr expr) {
  weight_ += 1 + expr.parts.size();
  if (weight_ > limits_.expressions) throw bad_input("the grammar has more than {} parts", limits_.expressions);
  if (exprs_.size() % 4096 == 0) check_time();
  exprs_.push_back(std::move(expr));
  return static_cast<ExprId>(exprs_.size() - 1);
}

uint32_t Rules::set_index(const ByteSet& set) {
  const auto [found, is_new] = set_indices_.emplace(set.to_string(), static_cast<uint32_t>(sets_.size()));
  if (is_new) sets_.push_back(set);
  return found->second;
}

ExprId Rules::bytes(const ByteSet& set) {
  if (set.none()) return nothing();
  return add({.kind = Expr::Kind::kBytes, .index = set_index(set)});
}

ExprId Rules::literal(std::string_view text) {
  if (text.empty()) return empty();
  weight_ += text.size();
  literals_.emplace_back(text);
  for (const char byte : text) {
    ByteSet set;
    set.set(static_cast<uint8_t>(byte));
    set_index(set);
  }
  return add({.kind = Expr::Kind::kLiteral, .index = static_cast<uint32_t>(literals_.size() - 1)});
}

ExprId Rules::sequence(std::vector<ExprId> parts) {
  if (parts.size() == 1) return parts.front();
  return add({.kind = Expr::Kind::kSequence, .parts = std::move(parts)});
}

ExprId Rules::choice(std::vector<ExprId> parts) {
  if (parts.size() == 1) return parts.front();
  return add({.kind = Expr::Kind::kChoice, .parts = std::move(parts)});
}

ExprId Rules::one_of(std::vector<std::string> texts) {
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  if (texts.empty()) return nothing();
  Graph graph;
  graph.states.emplace_back();
  add_texts(*this, graph, 0, texts, 0, texts.size(), 0);
  return this->graph(std::move(graph));
}

ExprId Rules::repeat(ExprId part, int32_t least, int32_t most) {
  if (least > most) return nothing();
  if (most == 0) return empty();
  if (least == 1 && most == 1) return part;
  const Expr inner = exprs_[part];
  // (x?){m,n} and (x*){m,n}: the inner repetition may be empty, which would make many equal parses.
  if (inner.kind == Expr::Kind::kRepeat && inner.least == 0) {
    if (inner.most == kUnbounded || (inner.most == 1 && most == kUnbounded))
      return add({.kind = Expr::Kind::kRepeat, .least = 0, .most = kUnbounded, .parts = inner.parts});
    if (inner.most == 1) return add({.kind = Expr::Kind::kRepeat, .least = 0, .most = most, .parts = inner.parts});
  }
  return add({.kind = Expr::Kind::kRepeat, .least = least, .most = most, .parts = {part}});
}

ExprId Rules::rule(RuleId rule) { return add({.kind = Expr::Kind::kRule, .index = rule}); }

ExprId Rules::graph(Graph graph) {
  for (const Graph::State& state : graph.states) weight_ += 1 + state.edges.size();
  graphs_.push_back(std::move(graph));
  return add({.kind = Expr::Kind::kGraph, .index = static_cast<uint32_t>(graphs_.size() - 1)});
}

RuleId Rules::add_rule(std::string name) {
  names_.push_back(std::move(name));
  bodies_.push_back(nothing());
  return static_cast<RuleId>(names_.size() - 1);
}

void Rules::define(RuleId rule, ExprId body) { bodies_[rule] = body; }

}  // namespace gabbro::text::grammar
