// Runs a syntax tree: the scopes, the statements and the expressions. One object renders one template once.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/jinja/ast.h"
#include "src/jinja/runtime.h"

namespace gabbro::jinja {

// The variables of one scope; what it lacks is looked up in the scope around it.
struct Frame {
  explicit Frame(std::shared_ptr<Frame> outer) : parent(std::move(outer)) {}

  const Value* find(std::string_view name) const;
  void set(const std::string& name, Value value);

  std::shared_ptr<Frame> parent;
  std::vector<std::pair<std::string, Value>> variables;
};
using FramePtr = std::shared_ptr<Frame>;

class Interpreter : public Runtime {
 public:
  // The variables must outlive the rendering.
  Interpreter(const Dict& variables, Limits limits, std::optional<std::time_t> now)
      : Runtime(limits, now), variables_(variables) {}
  ~Interpreter() override;

  MarkedText render(const Body& body);

  Value call(const Value& callee, const Args& args) override;
  Value call_filter(const std::string& name, const Value& input, const Args& args) override;
  bool call_test(const std::string& name, const Value& input, const Args& args) override;
  void keep(std::shared_ptr<Object> object) override;

  // For macros and loops, which come back to the tree that made them.
  Value run_macro(const MacroNode& macro, const FramePtr& frame, const Args& args);
  void run_loop(const For& loop, const Value& iterable, const FramePtr& frame, int loop_depth, MarkedText* out);

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // Statements (statements.cc).
  Flow run(const Body& body, const FramePtr& frame, MarkedText* out);
  Flow run(const Stmt& statement, const FramePtr& frame, MarkedText* out);
  Flow run(const If& node, const FramePtr& frame, MarkedText* out);
  Flow run(const FilterBlock& node, const FramePtr& frame, MarkedText* out);
  Flow run(const With& node, const FramePtr& frame, MarkedText* out);
  Flow run(const SetBlock& node, const FramePtr& frame);
  void run(const CallBlock& node, const FramePtr& frame, MarkedText* out);
  void set(const Target& target, const Value& value, const FramePtr& frame);
  void set_variable(const Target& target, const Value& value, const FramePtr& frame);
  void check_namespaces(const Target& target, const FramePtr& frame);
  void append(MarkedText* out, std::string_view text);
  void append(MarkedText* out, const MarkedText& text);
  Value make_macro(const MacroNode& macro, const FramePtr& frame);

  // Expressions (expressions.cc).
  Value eval(const Expr& expr, const FramePtr& frame);
  Value eval(const Literal& node, const FramePtr&) { return node.value; }
  Value eval(const Name& node, const FramePtr& frame);
  Value eval(const Tuple& node, const FramePtr& frame);
  Value eval(const List& node, const FramePtr& frame);
  Value eval(const DictLiteral& node, const FramePtr& frame);
  Value eval(const Concat& node, const FramePtr& frame);
  Value eval(const Unary& node, const FramePtr& frame);
  Value eval(const Logic& node, const FramePtr& frame);
  Value eval(const Binary& node, const FramePtr& frame);
  Value eval(const Compare& node, const FramePtr& frame);
  Value eval(const Conditional& node, const FramePtr& frame);
  Value eval(const Attribute& node, const FramePtr& frame);
  Value eval(const Subscript& node, const FramePtr& frame);
  Value eval(const Slice& node, const FramePtr& frame);
  Value eval(const Call& node, const FramePtr& frame);
  Value eval(const Filter& node, const FramePtr& frame);
  Value eval(const Test& node, const FramePtr& frame);
  std::vector<Value> eval_all(const std::vector<ExprPtr>& items, const FramePtr& frame);
  Args eval_args(const CallArgs& args, const FramePtr& frame);
  // A chain of filters over the text of a block.
  Value filter_text(const Expr& filter, MarkedText text, const FramePtr& frame);

  const Dict& variables_;
  FramePtr root_;
  std::vector<std::shared_ptr<Object>> kept_;
};

}  // namespace gabbro::jinja
