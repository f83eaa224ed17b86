#include "src/text/grammar/program.h"

#include <algorithm>
#include <map>

#include "src/base/error.h"
#include "src/text/grammar/rule_facts.h"

namespace gabbro::text::grammar {
namespace {

using Op = Instruction::Op;

constexpr size_t kMostInstructions = 4'000'000;
// A repetition that needs more instructions than this is counted by the machine; a shorter one is written out.
constexpr int64_t kMostWrittenOut = 24;

class Compiler {
 public:
  Compiler(const Rules& rules, RuleFacts facts) : rules_(rules), facts_(std::move(facts)) {
    for (uint32_t i = 0; i < rules.sets().size(); ++i) set_indices_.emplace(rules.set(i).to_string(), i);
    for (size_t byte = 0; byte < single_.size(); ++byte) {
      const auto found = set_indices_.find(ByteSet().set(byte).to_string());
      if (found != set_indices_.end()) single_[byte] = found->second;
    }
  }

  Program compile(RuleId root) {
    program_.sets = rules_.sets();
    entries_.assign(rules_.rule_count(), kNone);
    program_.start = entry_of(root);
    while (!open_.empty()) {
      const auto [code, body] = open_.back();
      open_.pop_back();
      const uint32_t start = expr(body, add({.op = Op::kReturn}));
      program_.code[code].a = start;
    }
    skip_jumps();
    find_classes();
    return std::move(program_);
  }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  uint32_t add(Instruction instruction) {
    if (program_.code.size() >= kMostInstructions)
      throw bad_input("the grammar compiles to more than {} instructions", kMostInstructions);
    if (program_.code.size() % 4096 == 0) rules_.check_time();
    program_.code.push_back(instruction);
    return static_cast<uint32_t>(program_.code.size() - 1);
  }

  // A jump to the body, which is compiled later.
  uint32_t later(ExprId body) {
    const uint32_t jump = add({.op = Op::kJump});
    open_.emplace_back(jump, body);
    return jump;
  }

  uint32_t entry_of(RuleId rule) {
    if (entries_[rule] == kNone) entries_[rule] = later(rules_.body(rule));
    return entries_[rule];
  }

  // Code that matches `id` and goes on at `next`; returns where it begins. The expression ends.
  uint32_t expr(ExprId id, uint32_t next) {
    const Expr& e = rules_.expr(id);
    switch (e.kind) {
      case Expr::Kind::kBytes:
        return add({.op = Op::kBytes, .a = e.index, .b = next});
      case Expr::Kind::kLiteral: {
        const std::string& text = rules_.text(e.index);
        for (size_t i = text.size(); i-- > 0;)
          next = add({.op = Op::kBytes, .a = single_[static_cast<uint8_t>(text[i])], .b = next});
        return next;
      }
      case Expr::Kind::kSequence:
        for (size_t i = e.parts.size(); i-- > 0;) next = expr(e.parts[i], next);
        return next;
      case Expr::Kind::kChoice:
        return choice(e, next);
      case Expr::Kind::kRepeat:
        return repeat(e, next);
      case Expr::Kind::kRule:
        return add({.op = Op::kCall, .a = entry_of(e.index), .b = next});
      case Expr::Kind::kGraph:
        return graph(rules_.graph_at(e.index), next);
    }
    return next;
  }

  uint32_t choice(const Expr& e, uint32_t next) {
    uint32_t found = kNone;
    for (size_t i = e.parts.size(); i-- > 0;) {
      if (!expr_ends(rules_, facts_.ends, e.parts[i])) continue;
      const uint32_t code = expr(e.parts[i], next);
      found = found == kNone ? code : add({.op = Op::kSplit, .a = code, .b = found});
    }
    return found;
  }

  uint32_t repeat(const Expr& e, uint32_t next) {
    const ExprId part = e.parts.front();
    if (!expr_ends(rules_, facts_.ends, part)) return next;  // `least` is 0, or the expression would not end
    const bool may_be_empty = expr_is_empty(rules_, facts_.is_empty, part);
    const int32_t least = may_be_empty ? 0 : e.least;
    const int64_t written = e.most == kUnbounded ? int64_t{least} + 1 : e.most;
    if (written > 1 && written * size_of(part) > kMostWrittenOut)
      return add({.op = Op::kRepeat, .a = later(part), .b = next, .least = least, .most = e.most});
    uint32_t code = next;
    if (e.most == kUnbounded) {
      code = add({.op = Op::kSplit, .b = next});
      const uint32_t body = expr(part, code);
      program_.code[code].a = body;
    } else {
      for (int32_t i = least; i < e.most; ++i) {
        const uint32_t body = expr(part, code);
        code = add({.op = Op::kSplit, .a = body, .b = next});
      }
    }
    for (int32_t i = 0; i < least; ++i) code = expr(part, code);
    return code;
  }

  uint32_t graph(const Graph& graph, uint32_t next) {
    std::vector<uint32_t> jumps;
    for (size_t i = 0; i < graph.states.size(); ++i) jumps.push_back(add({.op = Op::kJump}));
    for (size_t i = 0; i < graph.states.size(); ++i) {
      const Graph::State& state = graph.states[i];
      uint32_t code = state.accepts ? next : kNone;
      for (const Graph::Edge& edge : state.edges) {
        const uint32_t label = expr(edge.label, jumps[edge.to]);
        code = code == kNone ? label : add({.op = Op::kSplit, .a = label, .b = code});
      }
      program_.code[jumps[i]].a = code;
    }
    return jumps.front();
  }

  // Instructions of an expression, about; more than kMostWrittenOut: not counted on.
  int64_t size_of(ExprId id) const {
    const Expr& e = rules_.expr(id);
    if (e.kind == Expr::Kind::kBytes || e.kind == Expr::Kind::kRule) return 1;
    if (e.kind == Expr::Kind::kLiteral) return std::ssize(rules_.text(e.index));
    if (e.kind == Expr::Kind::kGraph) return std::ssize(rules_.graph_at(e.index).states) * 2;
    int64_t size = 1;
    for (const ExprId part : e.parts) {
      size += size_of(part);
      if (size > kMostWrittenOut) return size;
    }
    if (e.kind == Expr::Kind::kRepeat) size *= e.most == kUnbounded ? e.least + 1 : e.most;
    return size;
  }

  uint32_t target(uint32_t at) const {
    // Jumps in a circle do not exist: each expression between them ends.
    while (program_.code[at].op == Op::kJump) at = program_.code[at].a;
    return at;
  }

  void skip_jumps() {
    program_.start = target(program_.start);
    for (Instruction& one : program_.code) {
      if (one.op == Op::kReturn || one.op == Op::kJump) continue;
      if (one.op != Op::kBytes) one.a = target(one.a);
      one.b = target(one.b);
      one.is_tail = one.op == Op::kCall && program_.code[one.b].op == Op::kReturn;
    }
  }

  void find_classes() {
    std::map<std::vector<bool>, uint8_t> known;
    for (size_t byte = 0; byte < 256; ++byte) {
      std::vector<bool> in;
      for (const ByteSet& set : program_.sets) in.push_back(set[byte]);
      const auto [found, is_new] = known.emplace(std::move(in), static_cast<uint8_t>(known.size()));
      if (is_new) program_.bytes.push_back(static_cast<uint8_t>(byte));
      program_.classes[byte] = found->second;
    }
  }

  const Rules& rules_;
  const RuleFacts facts_;
  Program program_;
  std::map<std::string, uint32_t> set_indices_;
  std::array<uint32_t, 256> single_{};  // sets of one byte
  std::vector<uint32_t> entries_;       // by rule
  std::vector<std::pair<uint32_t, ExprId>> open_;
};

}  // namespace

Program compile_program(const Rules& rules, RuleId root) {
  return Compiler(rules, find_rule_facts(rules, root)).compile(root);
}

}  // namespace gabbro::text::grammar
