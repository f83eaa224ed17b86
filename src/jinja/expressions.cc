#include "src/jinja/interpreter.h"
#include "src/jinja/library.h"
#include "src/jinja/operators.h"

namespace gabbro::jinja {
namespace {

bool compare(Runtime& runtime, Comparison comparison, const Value& left, const Value& right) {
  switch (comparison) {
    case Comparison::kEqual:
      return equal(runtime, left, right);
    case Comparison::kNotEqual:
      return !equal(runtime, left, right);
    case Comparison::kLess:
      return ordered(runtime, Order::kLess, left, right);
    case Comparison::kLessEqual:
      return ordered(runtime, Order::kLessEqual, left, right);
    case Comparison::kGreater:
      return ordered(runtime, Order::kGreater, left, right);
    case Comparison::kGreaterEqual:
      return ordered(runtime, Order::kGreaterEqual, left, right);
    case Comparison::kIn:
      return contains(runtime, right, left);
    case Comparison::kNotIn:
      return !contains(runtime, right, left);
  }
  return false;
}

}  // namespace

Value Interpreter::eval(const Expr& expr, const FramePtr& frame) {
  const Nested nested(*this);
  step();
  const int outer_line = line;
  line = expr.line;
  Value value = std::visit([&](const auto& node) { return eval(node, frame); }, expr.node);
  line = outer_line;
  return value;
}

Value Interpreter::eval(const Name& node, const FramePtr& frame) {
  if (const Value* value = frame->find(node.name)) return *value;
  if (const Value* value = variables_.find(node.name)) return *value;
  Value global;
  if (find_global(node.name, &global)) return global;
  return Value::undefined(fmt::format("'{}' is undefined", node.name));
}

std::vector<Value> Interpreter::eval_all(const std::vector<ExprPtr>& items, const FramePtr& frame) {
  std::vector<Value> values;
  values.reserve(items.size());
  for (const ExprPtr& item : items) values.push_back(eval(*item, frame));
  return values;
}

Value Interpreter::eval(const Tuple& node, const FramePtr& frame) { return tuple(eval_all(node.items, frame)); }

Value Interpreter::eval(const List& node, const FramePtr& frame) { return list(eval_all(node.items, frame)); }

Value Interpreter::eval(const DictLiteral& node, const FramePtr& frame) {
  Dict result;
  for (const auto& [key, value] : node.items) {
    const Value evaluated_key = eval(*key, frame);
    result.set(*this, evaluated_key, eval(*value, frame));
  }
  return dict(std::move(result));
}

Value Interpreter::eval(const Concat& node, const FramePtr& frame) {
  MarkedText result;
  for (const Value& value : eval_all(node.items, frame)) {
    result.append(to_text(*this, value));
    if (result.size() > limits().output) break;
  }
  return text(std::move(result));
}

Value Interpreter::eval(const Unary& node, const FramePtr& frame) {
  const Value value = eval(*node.operand, frame);
  if (node.operation == Unary::kNot) return !truth(value);
  if (node.operation == Unary::kNegative) return negate(*this, value);
  require_defined(*this, value);
  if (!value.is_number()) throw error("bad operand type for unary +: '{}'", value.type_name());
  return value.kind() == Kind::kBool ? Value(value.integer()) : value;
}

Value Interpreter::eval(const Logic& node, const FramePtr& frame) {
  Value left = eval(*node.left, frame);
  return truth(left) == node.is_and ? eval(*node.right, frame) : left;
}

Value Interpreter::eval(const Binary& node, const FramePtr& frame) {
  const Value left = eval(*node.left, frame);
  return arithmetic(*this, node.operation, left, eval(*node.right, frame));
}

Value Interpreter::eval(const Compare& node, const FramePtr& frame) {
  Value left = eval(*node.first, frame);
  for (const auto& [comparison, operand] : node.rest) {
    Value right = eval(*operand, frame);
    if (!compare(*this, comparison, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::eval(const Conditional& node, const FramePtr& frame) {
  if (truth(eval(*node.test, frame))) return eval(*node.yes, frame);
  if (node.no) return eval(*node.no, frame);
  return Value::undefined(
      fmt::format("the inline if-expression on line {} evaluated to false and no else section was defined.", line));
}

Value Interpreter::eval(const Attribute& node, const FramePtr& frame) {
  return get_attribute(*this, eval(*node.object, frame), node.name);
}

Value Interpreter::eval(const Subscript& node, const FramePtr& frame) {
  const Value object = eval(*node.object, frame);
  return get_item(*this, object, eval(*node.key, frame));
}

Value Interpreter::eval(const Slice& node, const FramePtr& frame) {
  const auto bound = [&](const ExprPtr& part) { return part ? eval(*part, frame) : Value(); };
  const Value object = eval(*node.object, frame);
  const Value start = bound(node.start);
  const Value stop = bound(node.stop);
  return get_slice(*this, object, start, stop, bound(node.step));
}

Args Interpreter::eval_args(const CallArgs& nodes, const FramePtr& frame) {
  Args args;
  args.positional = eval_all(nodes.positional, frame);
  for (const auto& [name, value] : nodes.named) args.named.emplace_back(name, eval(*value, frame));
  if (nodes.star) {
    for (Value& value : collect(*this, eval(*nodes.star, frame))) args.positional.push_back(std::move(value));
  }
  if (nodes.double_star) {
    const Value more = eval(*nodes.double_star, frame);
    if (!more.is_dict()) throw error("argument after ** must be a mapping, not {}", more.type_name());
    for (const auto& [key, value] : more.dict().entries()) {
      if (!key.is_string()) throw error("keywords must be strings");
      step(args.named.size());
      for (const auto& [name, other] : args.named) {
        if (name == key.string()) throw error("got multiple values for keyword argument '{}'", name);
      }
      args.named.emplace_back(key.string(), value);
    }
  }
  return args;
}

Value Interpreter::eval(const Call& node, const FramePtr& frame) {
  const Value callee = eval(*node.callee, frame);
  return call(callee, eval_args(node.args, frame));
}

Value Interpreter::eval(const Filter& node, const FramePtr& frame) {
  const Value input = eval(*node.input, frame);
  return call_filter(node.name, input, eval_args(node.args, frame));
}

Value Interpreter::filter_text(const Expr& filter, MarkedText text_of_block, const FramePtr& frame) {
  const Nested nested(*this);
  const auto& node = std::get<Filter>(filter.node);
  const Value input =
      node.input ? filter_text(*node.input, std::move(text_of_block), frame) : text(std::move(text_of_block));
  return call_filter(node.name, input, eval_args(node.args, frame));
}

Value Interpreter::eval(const Test& node, const FramePtr& frame) {
  const Value input = eval(*node.input, frame);
  return call_test(node.name, input, eval_args(node.args, frame));
}

Value Interpreter::call(const Value& callee, const Args& args) {
  require_defined(*this, callee);
  if (callee.kind() != Kind::kObject || !callee.object()->callable()) {
    throw error("'{}' object is not callable", callee.type_name());
  }
  return callee.object()->call(*this, args);
}

Value Interpreter::call_filter(const std::string& name, const Value& input, const Args& args) {
  step();
  const FilterFunction filter = find_filter(name);
  if (!filter) throw error("No filter named '{}' found.", name);
  if (input.is_string()) scan(input.string());
  return filter(*this, input, args);
}

bool Interpreter::call_test(const std::string& name, const Value& input, const Args& args) {
  step();
  const TestFunction test = find_test(name);
  if (!test) throw error("No test named '{}' found.", name);
  if (input.is_string()) scan(input.string());
  return test(*this, input, args);
}

}  // namespace gabbro::jinja
