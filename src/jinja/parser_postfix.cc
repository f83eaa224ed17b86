// Subscripts, calls with their arguments, filters and tests, which follow an operand.
#include <algorithm>

#include "src/jinja/parser.h"
#include "src/jinja/parser_nodes.h"

namespace gabbro::jinja {

int Parser::depth_of(const CallArgs& args) {
  int depth = deepest_of(args.positional);
  for (const auto& [name, value] : args.named) depth = std::max(depth, value->depth);
  if (args.star) depth = std::max(depth, args.star->depth);
  if (args.double_star) depth = std::max(depth, args.double_star->depth);
  return depth;
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
    const int deep = deepest_of(keys);
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
