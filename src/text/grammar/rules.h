// A grammar as rules over bytes: expressions that refer to each other by number. Front ends (regular expressions, GBNF,
// JSON Schema) build one; program.h compiles it.
#pragma once

#include <bitset>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gabbro::text::grammar {

using ByteSet = std::bitset<256>;
using ExprId = uint32_t;
using RuleId = uint32_t;

inline constexpr int32_t kUnbounded = std::numeric_limits<int32_t>::max();

// Limits of a compilation; each of them ends in bad_input. The time is the thread's processor time, so that a crowded
// machine refuses no grammar.
struct Limits {
  size_t expressions = 1'000'000;
  std::chrono::milliseconds time{1500};
};

struct Expr {
  // kGraph: a finite automaton whose edges are expressions.
  enum class Kind : uint8_t { kBytes, kLiteral, kSequence, kChoice, kRepeat, kRule, kGraph };
  Kind kind;
  uint32_t index = 0;           // kBytes: in sets, kLiteral: in literals, kRule: the rule, kGraph: in graphs
  int32_t least = 0, most = 0;  // kRepeat
  std::vector<ExprId> parts{};  // kRepeat has one
};

struct Graph {
  struct Edge {
    ExprId label;
    uint32_t to;
  };
  struct State {
    std::vector<Edge> edges{};
    bool accepts = false;
  };
  std::vector<State> states;  // the first one is the start
};

class Rules {
 public:
  explicit Rules(Limits limits = {});

  ExprId bytes(const ByteSet& set);
  ExprId literal(std::string_view text);
  ExprId sequence(std::vector<ExprId> parts);
  ExprId choice(std::vector<ExprId> parts);
  // One of these texts; common beginnings are shared.
  ExprId one_of(std::vector<std::string> texts);
  ExprId repeat(ExprId part, int32_t least, int32_t most);
  ExprId optional(ExprId part) { return repeat(part, 0, 1); }
  ExprId rule(RuleId rule);
  ExprId graph(Graph graph);
  ExprId empty() { return sequence({}); }  // the empty text
  ExprId nothing() { return choice({}); }  // no text at all

  RuleId add_rule(std::string name);
  void define(RuleId rule, ExprId body);

  // Throws bad_input once the compilation took too long; front ends call it in their loops, on the thread that made
  // this object.
  void check_time() const;

  const Expr& expr(ExprId id) const { return exprs_[id]; }
  const ByteSet& set(uint32_t index) const { return sets_[index]; }
  const std::vector<ByteSet>& sets() const { return sets_; }
  const std::string& text(uint32_t index) const { return literals_[index]; }
  const Graph& graph_at(uint32_t index) const { return graphs_[index]; }
  size_t rule_count() const { return bodies_.size(); }
  ExprId body(RuleId rule) const { return bodies_[rule]; }
  const std::string& name(RuleId rule) const { return names_[rule]; }

 private:
  ExprId add(Expr expr);
  uint32_t set_index(const ByteSet& set);

  Limits limits_;
  double deadline_;  // thread_processor_seconds()
  std::vector<Expr> exprs_;
  std::vector<ByteSet> sets_;
  std::map<std::string, uint32_t> set_indices_;  // by the bits
  std::vector<std::string> literals_;
  std::vector<Graph> graphs_;
  std::vector<ExprId> bodies_;  // of rules
  std::vector<std::string> names_;
  size_t weight_ = 0;  // expressions, bytes of literals and edges of graphs
};

ByteSet byte_range(uint8_t first, uint8_t last);

}  // namespace gabbro::text::grammar
