// Operators, by their precedence, and operands.
#include <algorithm>

#include "src/jinja/parser.h"
#include "src/jinja/parser_nesting.h"
#include "src/jinja/parser_nodes.h"

namespace gabbro::jinja {

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
  const int depth = deepest_of(items);
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
  const int depth = deepest_of(items);
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
  const int depth = deepest_of(items);
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

}  // namespace gabbro::jinja
