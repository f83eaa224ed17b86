#include <algorithm>

#include "src/jinja/parser.h"
#include "src/jinja/parser_nesting.h"
#include "src/jinja/runtime.h"

namespace gabbro::jinja {

template <class T>
ExprPtr Parser::make(int line, T node, int depth) {
  if (depth >= kMaxTreeDepth) fail(line, "the expression nests too deeply");
  auto expr = std::make_unique<Expr>(Expr{.line = line, .depth = depth + 1, .node = std::move(node)});
  return expr;
}

namespace {

int deepest(const std::vector<ExprPtr>& items) {
  int depth = 0;
  for (const ExprPtr& item : items) depth = std::max(depth, item->depth);
  return depth;
}

}  // namespace

int Parser::depth_of(const CallArgs& args) {
  int depth = deepest(args.positional);
  for (const auto& [name, value] : args.named) depth = std::max(depth, value->depth);
  if (args.star) depth = std::max(depth, args.star->depth);
  if (args.double_star) depth = std::max(depth, args.double_star->depth);
  return depth;
}

ExprPtr Parser::parse_expression(bool with_condition) {
  const Nesting nesting(*this);
  return with_condition ? parse_condition() : parse_or();
}

// One expression, or a tuple where commas follow. Without parentheses an empty tuple is an error.
ExprPtr Parser::parse_tuple(bool with_condition, bool in_parentheses, bool ends_with_recursive) {
  const int line = current().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) expect_operator(",");
    if (current().kind == TokenKind::kVariableEnd || current().kind == TokenKind::kBlockEnd || at_operator(")") ||
        (ends_with_recursive && at_name("recursive"))) {
      break;
    }
    items.push_back(parse_expression(with_condition));
    if (!at_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (!is_tuple && !in_parentheses) {
    fail(current().line, fmt::format("Expected an expression, got '{}'", describe(current())));
  }
  const int depth = deepest(items);
  return make(line, Tuple{std::move(items)}, depth);
}

ExprPtr Parser::parse_condition() {
  int line = current().line;
  const size_t unknown = unknown_.size();
  ExprPtr value = parse_or();
  while (skip_name("if")) {
    ExprPtr test = parse_or();
    ExprPtr otherwise = skip_name("else") ? (Nesting(*this), parse_condition()) : nullptr;
    unknown_.resize(unknown);
    const int depth = std::max({value->depth, test->depth, otherwise ? otherwise->depth : 0});
    value = make(line, Conditional{std::move(test), std::move(value), std::move(otherwise)}, depth);
    line = current().line;
  }
  return value;
}

ExprPtr Parser::parse_or() {
  const int line = current().line;
  ExprPtr left = parse_and();
  while (skip_name("or")) {
    ExprPtr right = parse_and();
    const int depth = std::max(left->depth, right->depth);
    left = make(line, Logic{false, std::move(left), std::move(right)}, depth);
  }
  return left;
}

ExprPtr Parser::parse_and() {
  const int line = current().line;
  ExprPtr left = parse_not();
  while (skip_name("and")) {
    ExprPtr right = parse_not();
    const int depth = std::max(left->depth, right->depth);
    left = make(line, Logic{true, std::move(left), std::move(right)}, depth);
  }
  return left;
}

ExprPtr Parser::parse_not() {
  if (!at_name("not")) return parse_compare();
  const Nesting nesting(*this);
  const int line = advance().line;
  ExprPtr operand = parse_not();
  const int depth = operand->depth;
  return make(line, Unary{Unary::kNot, std::move(operand)}, depth);
}

bool Parser::parse_comparison(Comparison* comparison) {
  constexpr std::string_view kSigns[] = {"==", "!=", "<", "<=", ">", ">="};
  for (size_t i = 0; i < std::size(kSigns); ++i) {
    if (skip_operator(kSigns[i])) {
      *comparison = static_cast<Comparison>(i);
      return true;
    }
  }
  if (skip_name("in")) {
    *comparison = Comparison::kIn;
    return true;
  }
  if (at_name("not") && is_name(look(), "in")) {
    advance();
    advance();
    *comparison = Comparison::kNotIn;
    return true;
  }
  return false;
}

ExprPtr Parser::parse_compare() {
  const int line = current().line;
  ExprPtr first = parse_sum();
  int depth = first->depth;
  std::vector<std::pair<Comparison, ExprPtr>> rest;
  for (Comparison comparison; parse_comparison(&comparison);) {
    rest.emplace_back(comparison, parse_sum());
    depth = std::max(depth, rest.back().second->depth);
  }
  if (rest.empty()) return first;
  return make(line, Compare{std::move(first), std::move(rest)}, depth);
}

ExprPtr Parser::parse_sum() {
  const int line = current().line;
  ExprPtr left = parse_concat();
  while (at_operator("+") || at_operator("-")) {
    const Arithmetic operation = advance().text == "+" ? Arithmetic::kAdd : Arithmetic::kSubtract;
    ExprPtr right = parse_concat();
    const int depth = std::max(left->depth, right->depth);
    left = make(line, Binary{operation, std::move(left), std::move(right)}, depth);
  }
  return left;
}

ExprPtr Parser::parse_concat() {
  const int line = current().line;
  std::vector<ExprPtr> items;
  items.push_back(parse_product());
  while (skip_operator("~")) items.push_back(parse_product());
  if (items.size() == 1) return std::move(items[0]);
  const int depth = deepest(items);
  return make(line, Concat{std::move(items)}, depth);
}

ExprPtr Parser::parse_product() {
  const int line = current().line;
  ExprPtr left = parse_power();
  while (at_operator("*") || at_operator("/") || at_operator("//") || at_operator("%")) {
    const std::string& sign = advance().text;
    const Arithmetic operation = sign == "*"    ? Arithmetic::kMultiply
                                 : sign == "/"  ? Arithmetic::kDivide
                                 : sign == "//" ? Arithmetic::kFloorDivide
                                                : Arithmetic::kModulo;
    ExprPtr right = parse_power();
    const int depth = std::max(left->depth, right->depth);
    left = make(line, Binary{operation, std::move(left), std::move(right)}, depth);
  }
  return left;
}

// Jinja's ** binds to the left, unlike Python's, and less tightly than a sign.
ExprPtr Parser::parse_power() {
  const int line = current().line;
  ExprPtr left = parse_unary();
  while (skip_operator("**")) {
    ExprPtr right = parse_unary();
    const int depth = std::max(left->depth, right->depth);
    left = make(line, Binary{Arithmetic::kPower, std::move(left), std::move(right)}, depth);
  }
  return left;
}

ExprPtr Parser::parse_unary(bool with_filter) {
  const int line = current().line;
  ExprPtr expr;
  if (at_operator("-") || at_operator("+")) {
    const Nesting nesting(*this);
    const auto operation = advance().text == "-" ? Unary::kNegative : Unary::kPositive;
    ExprPtr operand = parse_unary(false);
    const int depth = operand->depth;
    expr = make(line, Unary{operation, std::move(operand)}, depth);
  } else {
    expr = parse_primary();
  }
  expr = parse_postfix(std::move(expr));
  return with_filter ? parse_filters_and_tests(std::move(expr)) : std::move(expr);
}

ExprPtr Parser::parse_primary() {
  const int line = current().line;
  switch (current().kind) {
    case TokenKind::kName:
      return parse_name();
    case TokenKind::kString: {
      std::string text;
      while (current().kind == TokenKind::kString) text += advance().text;
      return make(line, Literal{Value(std::move(text))});
    }
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return make(line, Literal{advance().number});
    default:
      break;
  }
  if (skip_operator("(")) {
    ExprPtr expr = parse_tuple(true, true);
    expect_operator(")");
    return expr;
  }
  if (at_operator("[")) return parse_list();
  if (at_operator("{")) return parse_dict();
  fail(line, fmt::format("unexpected '{}'", describe(current())));
}

ExprPtr Parser::parse_name() {
  const Token& token = advance();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return make(token.line, Literal{true});
  if (name == "false" || name == "False") return make(token.line, Literal{false});
  if (name == "none" || name == "None") return make(token.line, Literal{});
  uses_caller_ = uses_caller_ || name == "caller";
  uses_kwargs_ = uses_kwargs_ || name == "kwargs";
  uses_varargs_ = uses_varargs_ || name == "varargs";
  return make(token.line, Name{name});
}

ExprPtr Parser::parse_list() {
  const int line = advance().line;
  std::vector<ExprPtr> items;
  while (!at_operator("]")) {
    if (!items.empty()) expect_operator(",");
    if (at_operator("]")) break;
    items.push_back(parse_expression());
  }
  expect_operator("]");
  const int depth = deepest(items);
  return make(line, List{std::move(items)}, depth);
}

ExprPtr Parser::parse_dict() {
  const int line = advance().line;
  int depth = 0;
  std::vector<std::pair<ExprPtr, ExprPtr>> items;
  while (!at_operator("}")) {
    if (!items.empty()) expect_operator(",");
    if (at_operator("}")) break;
    ExprPtr key = parse_expression();
    expect_operator(":");
    ExprPtr value = parse_expression();
    depth = std::max({depth, key->depth, value->depth});
    items.emplace_back(std::move(key), std::move(value));
  }
  expect_operator("}");
  return make(line, DictLiteral{std::move(items)}, depth);
}

ExprPtr Parser::parse_postfix(ExprPtr expr) {
  while (true) {
    if (at_operator(".") || at_operator("[")) {
      expr = parse_subscript(std::move(expr));
    } else if (at_operator("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr Parser::parse_filters_and_tests(ExprPtr expr) {
  while (true) {
    if (at_operator("|")) {
      expr = parse_filters(std::move(expr), false);
    } else if (at_name("is")) {
      expr = parse_test(std::move(expr));
    } else if (at_operator("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr Parser::parse_subscript(ExprPtr object) {
  const int line = current().line;
  const int depth = object->depth;
  if (skip_operator(".")) {
    const Token& token = advance();
    if (token.kind == TokenKind::kName) return make(line, Attribute{std::move(object), token.text}, depth);
    if (token.kind != TokenKind::kInteger) fail(token.line, "expected name or number");
    ExprPtr key = make(token.line, Literal{token.number});
    return make(line, Subscript{std::move(object), std::move(key)}, depth);
  }
  advance();
  std::vector<ExprPtr> keys;
  while (!at_operator("]")) {
    if (!keys.empty()) expect_operator(",");
    keys.push_back(parse_subscribed(&object));
    if (keys.size() == 1 && !object) {  // it was a slice, which holds the object now
      expect_operator("]");
      return std::move(keys[0]);
    }
  }
  expect_operator("]");
  ExprPtr key = std::move(keys.empty() ? keys.emplace_back(make(line, Tuple{})) : keys[0]);
  if (keys.size() > 1) {
    keys[0] = std::move(key);
    const int deep = deepest(keys);
    key = make(line, Tuple{std::move(keys)}, deep);
  }
  const int deep = std::max(depth, key->depth);
  return make(line, Subscript{std::move(object), std::move(key)}, deep);
}

// The contents of brackets: a key, or a slice, which takes over the object.
ExprPtr Parser::parse_subscribed(ExprPtr* object) {
  const int line = current().line;
  ExprPtr start, stop, step;
  if (!at_operator(":")) {
    start = parse_expression();
    if (!at_operator(":")) return start;
  }
  if (!*object) fail(line, "a slice cannot be part of a tuple");
  const auto ends = [&] { return at_operator("]") || at_operator(","); };
  expect_operator(":");
  if (!at_operator(":") && !ends()) stop = parse_expression();
  if (skip_operator(":") && !ends()) step = parse_expression();
  if (at_operator(",")) fail(line, "a slice cannot be part of a tuple");
  int depth = (*object)->depth;
  for (const ExprPtr* part : {&start, &stop, &step}) depth = std::max(depth, *part ? (*part)->depth : 0);
  return make(line, Slice{std::move(*object), std::move(start), std::move(stop), std::move(step)}, depth);
}

CallArgs Parser::parse_args() {
  const int line = current().line;
  expect_operator("(");
  CallArgs args;
  bool first = true;
  const auto ensure = [&](bool condition) {
    if (!condition) fail(line, "invalid syntax for function call expression");
  };
  while (!at_operator(")")) {
    if (!first) {
      expect_operator(",");
      if (at_operator(")")) break;
    }
    first = false;
    if (skip_operator("*")) {
      ensure(!args.star && !args.double_star);
      args.star = parse_expression();
    } else if (skip_operator("**")) {
      ensure(!args.double_star);
      args.double_star = parse_expression();
    } else if (current().kind == TokenKind::kName && is_operator(look(), "=")) {
      ensure(!args.double_star);
      std::string name = advance().text;
      advance();
      for (const auto& [other, value] : args.named) {
        if (other == name) fail(line, fmt::format("keyword argument repeated: {}", name));
      }
      args.named.emplace_back(std::move(name), parse_expression());
    } else {
      ensure(!args.star && !args.double_star && args.named.empty());
      args.positional.push_back(parse_expression());
    }
  }
  expect_operator(")");
  return args;
}

ExprPtr Parser::parse_call(ExprPtr callee) {
  const int line = current().line;
  CallArgs args = parse_args();
  const int depth = std::max(callee->depth, depth_of(args));
  return make(line, Call{std::move(callee), std::move(args)}, depth);
}

ExprPtr Parser::parse_filters(ExprPtr input, bool starts_inline) {
  while (starts_inline || at_operator("|")) {
    if (!starts_inline) advance();
    starts_inline = false;
    const int line = current().line;
    std::string name = expect_any_name();
    while (skip_operator(".")) name.append(".").append(expect_any_name());
    CallArgs args = at_operator("(") ? parse_args() : CallArgs{};
    note_filter(name, line);
    const int depth = std::max(input ? input->depth : 0, depth_of(args));
    input = make(line, Filter{std::move(input), std::move(name), std::move(args)}, depth);
  }
  return input;
}

ExprPtr Parser::parse_test(ExprPtr input) {
  const int line = advance().line;
  const bool negated = skip_name("not");
  std::string name = expect_any_name();
  while (skip_operator(".")) name.append(".").append(expect_any_name());
  CallArgs args;
  const TokenKind kind = current().kind;
  if (at_operator("(")) {
    args = parse_args();
  } else if ((kind == TokenKind::kName || kind == TokenKind::kString || kind == TokenKind::kInteger ||
              kind == TokenKind::kFloat || at_operator("[") || at_operator("{")) &&
             !at_name("else") && !at_name("or") && !at_name("and")) {
    if (at_name("is")) fail(current().line, "You cannot chain multiple tests with is");
    args.positional.push_back(parse_postfix(parse_primary()));
  }
  note_test(name, line);
  const int depth = std::max(input->depth, depth_of(args));
  ExprPtr test = make(line, Test{std::move(input), std::move(name), std::move(args)}, depth);
  if (!negated) return test;
  const int deeper = test->depth;
  return make(line, Unary{Unary::kNot, std::move(test)}, deeper);
}

void Parser::note_filter(const std::string& name, int line) {
  if (!has_filter(name)) unknown_.push_back({line, fmt::format("No filter named '{}'.", name)});
}

void Parser::note_test(const std::string& name, int line) {
  if (!has_test(name)) unknown_.push_back({line, fmt::format("No test named '{}'.", name)});
}

}  // namespace gabbro::jinja
