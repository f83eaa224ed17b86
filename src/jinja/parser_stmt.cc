#include <fmt/ranges.h>

#include <algorithm>

#include "src/jinja/parser.h"
#include "src/jinja/parser_nesting.h"
#include "src/jinja/runtime.h"

namespace gabbro::jinja {
namespace {

template <class T>
void add(Body* body, int line, T node) {
  body->push_back(std::make_unique<const Stmt>(Stmt{.line = line, .node = std::move(node)}));
}

}  // namespace

const Token& Parser::advance() {
  const Token& token = current();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::skip_operator(std::string_view text) { return at_operator(text) && (advance(), true); }
bool Parser::skip_name(std::string_view text) { return at_name(text) && (advance(), true); }

void Parser::fail(int line, std::string_view message) const { throw template_error(line, message); }

void Parser::fail_expected(std::string_view what) const {
  if (current().kind == TokenKind::kEnd) {
    fail(current().line, fmt::format("unexpected end of template, expected '{}'.", what));
  }
  fail(current().line, fmt::format("expected token '{}', got '{}'", what, describe(current())));
}

void Parser::expect_operator(std::string_view text) {
  if (!skip_operator(text)) fail_expected(text);
}

void Parser::expect_name(std::string_view text) {
  if (!skip_name(text)) fail_expected(text);
}

std::string Parser::expect_any_name() {
  if (current().kind != TokenKind::kName) fail_expected("name");
  return advance().text;
}

void Parser::expect(TokenKind kind, std::string_view name) {
  if (current().kind != kind) fail_expected(name);
  advance();
}

Body Parser::parse() {
  Body body = parse_until({}, {});
  if (!unknown_.empty()) fail(unknown_[0].line, unknown_[0].message);
  return body;
}

// Statements up to one of the end tags, whose name is then the current token; without end tags, all of them.
Body Parser::parse_until(Names end_tags, std::string_view opened_by) {
  const Nesting nesting(*this);
  Body body;
  while (current().kind != TokenKind::kEnd) {
    const Token& token = advance();
    if (token.kind == TokenKind::kData) {
      add(&body, token.line, Data{token.text});
    } else if (token.kind == TokenKind::kVariableBegin) {
      const int line = current().line;
      add(&body, line, Output{parse_tuple()});
      expect(TokenKind::kVariableEnd, "end of print statement");
    } else {
      if (current().kind != TokenKind::kName) fail(current().line, "tag name expected");
      if (std::find(end_tags.begin(), end_tags.end(), current().text) != end_tags.end()) return body;
      const std::string tag = current().text;
      if (tag.starts_with("end") || tag == "else" || tag == "elif") fail_end(end_tags, opened_by);
      parse_tag(tag, &body);
      expect(TokenKind::kBlockEnd, "end of statement block");
    }
  }
  if (end_tags.size() > 0) {
    fail(current().line, fmt::format("Unexpected end of template. Jinja was looking for the following tags: '{}'. The "
                                     "innermost block that needs to be closed is '{}'.",
                                     fmt::join(end_tags, "' or '"), opened_by));
  }
  return body;
}

void Parser::fail_end(Names end_tags, std::string_view opened_by) const {
  std::string message = fmt::format("Encountered unknown tag '{}'.", current().text);
  if (end_tags.size() > 0) {
    message += fmt::format(
        " Jinja was looking for the following tags: '{}'. The innermost block that needs to be "
        "closed is '{}'.",
        fmt::join(end_tags, "' or '"), opened_by);
  }
  fail(current().line, message);
}

// The end of the opening tag, and the statements behind it.
Body Parser::parse_body(Names end_tags, std::string_view opened_by) {
  skip_operator(":");
  expect(TokenKind::kBlockEnd, "end of statement block");
  return parse_until(end_tags, opened_by);
}

// A body that Jinja compiles as a separate frame: there unknown filters count even inside a branch.
Body Parser::parse_frame(Names end_tags, std::string_view opened_by) {
  std::vector<Unknown> outer = std::move(unknown_);
  unknown_.clear();
  Body body = parse_body(end_tags, opened_by);
  if (!unknown_.empty()) fail(unknown_[0].line, unknown_[0].message);
  unknown_ = std::move(outer);
  return body;
}

void Parser::parse_tag(std::string_view tag, Body* body) {
  const int line = advance().line;
  if (tag == "if") return add(body, line, parse_if());
  if (tag == "for") return add(body, line, parse_for());
  if (tag == "set") return parse_set(line, body);
  if (tag == "print") return parse_print(body);
  if (tag == "macro") return add(body, line, parse_macro());
  if (tag == "call") return add(body, line, parse_call_block(line));
  if (tag == "filter") return add(body, line, parse_filter_block());
  if (tag == "with") return add(body, line, parse_with());
  if (tag == "block") return add(body, line, parse_block());
  if (tag == "autoescape") return add(body, line, parse_autoescape());
  if (tag == "generation") {
    const int loops = std::exchange(loops_, 0);
    add(body, line, Scope{parse_frame({"endgeneration"}, tag)});
    loops_ = loops;
    advance();
    return;
  }
  if (tag == "break" || tag == "continue") {
    if (loops_ == 0) fail(line, fmt::format("'{}' outside loop", tag));
    return add(body, line, LoopControl{tag == "break"});
  }
  if (tag == "include" || tag == "import" || tag == "from" || tag == "extends") {
    return add(body, line, parse_unsupported(tag));
  }
  fail(line, fmt::format("Encountered unknown tag '{}'.", tag));
}

void Parser::parse_print(Body* body) {
  bool first = true;
  while (current().kind != TokenKind::kBlockEnd) {
    if (!first) expect_operator(",");
    first = false;
    const int line = current().line;
    add(body, line, Output{parse_expression()});
  }
}

If Parser::parse_if() {
  const size_t unknown = unknown_.size();
  If node;
  while (true) {
    ExprPtr test = parse_tuple(false);
    Body branch = parse_body({"elif", "else", "endif"}, "if");
    node.branches.emplace_back(std::move(test), std::move(branch));
    const std::string end = advance().text;
    if (end == "elif") continue;
    if (end == "else") {
      node.otherwise = parse_body({"endif"}, "if");
      advance();
    }
    unknown_.resize(unknown);
    return node;
  }
}

For Parser::parse_for() {
  For node;
  ++loops_;
  node.target = parse_target(false, true);
  --loops_;
  expect_name("in");
  node.iterable = parse_tuple(false, false, true);
  if (skip_name("if")) node.filter = parse_expression();
  node.recursive = skip_name("recursive");
  ++loops_;
  node.body = parse_frame({"endfor", "else"}, "for");
  --loops_;
  if (advance().text == "else") {
    node.otherwise = parse_frame({"endfor"}, "for");
    advance();
  }
  return node;
}

void Parser::parse_set(int line, Body* body) {
  Target target = parse_target(true, false);
  if (skip_operator("=")) return add(body, line, Set{std::move(target), parse_tuple()});
  ExprPtr filter = parse_filters(nullptr, false);
  Body text = parse_frame({"endset"}, "set");
  advance();
  add(body, line, SetBlock{std::move(target), std::move(filter), std::move(text)});
}

// The signature of a macro, or of a call block, which may lack it.
MacroNode Parser::parse_signature(std::string name, bool has_signature) {
  MacroNode macro{.name = std::move(name)};
  if (has_signature) {
    expect_operator("(");
    while (!at_operator(")")) {
      if (!macro.parameters.empty()) expect_operator(",");
      const int line = current().line;
      std::string parameter = expect_any_name();
      if (std::find(macro.parameters.begin(), macro.parameters.end(), parameter) != macro.parameters.end()) {
        fail(line, fmt::format("duplicate argument '{}' in macro definition", parameter));
      }
      const bool has_default = skip_operator("=");
      if (!has_default && !macro.defaults.empty() && macro.defaults.back()) {
        fail(current().line, "non-default argument follows default argument");
      }
      macro.defaults.push_back(has_default ? parse_expression() : nullptr);
      macro.parameters.push_back(std::move(parameter));
    }
    expect_operator(")");
  }
  return macro;
}

Macro Parser::parse_macro() {
  const int line = current().line;
  std::string name = expect_any_name();
  Macro node{parse_signature(std::move(name), true)};
  MacroNode& macro = node.macro;
  const int loops = std::exchange(loops_, 0);
  const bool caller = std::exchange(uses_caller_, false);
  const bool kwargs = std::exchange(uses_kwargs_, false);
  const bool varargs = std::exchange(uses_varargs_, false);
  macro.body = parse_frame({"endmacro"}, "macro");
  advance();
  const auto names = [&](std::string_view special) {
    return std::find(macro.parameters.begin(), macro.parameters.end(), special) != macro.parameters.end();
  };
  macro.uses_caller = uses_caller_;
  macro.uses_kwargs = uses_kwargs_ && !names("kwargs");
  macro.uses_varargs = uses_varargs_ && !names("varargs");
  if (macro.uses_caller && names("caller")) {
    const auto index = std::find(macro.parameters.begin(), macro.parameters.end(), "caller") - macro.parameters.begin();
    if (!macro.defaults[static_cast<size_t>(index)]) {
      fail(line,
           "When defining macros or call blocks the special \"caller\" argument must be omitted or be given a "
           "default.");
    }
  }
  loops_ = loops;
  uses_caller_ |= caller;
  uses_kwargs_ |= kwargs;
  uses_varargs_ |= varargs;
  return node;
}

CallBlock Parser::parse_call_block(int line) {
  MacroNode macro = parse_signature("caller", at_operator("("));
  ExprPtr call = parse_expression();
  if (!std::holds_alternative<Call>(call->node)) fail(line, "expected call");
  const int loops = std::exchange(loops_, 0);
  const bool caller = std::exchange(uses_caller_, false);
  const bool kwargs = std::exchange(uses_kwargs_, false);
  const bool varargs = std::exchange(uses_varargs_, false);
  macro.body = parse_frame({"endcall"}, "call");
  advance();
  macro.uses_caller = uses_caller_;
  macro.uses_kwargs = uses_kwargs_;
  macro.uses_varargs = uses_varargs_;
  loops_ = loops;
  uses_caller_ |= caller;
  uses_kwargs_ |= kwargs;
  uses_varargs_ |= varargs;
  return {std::move(call), std::move(macro)};
}

FilterBlock Parser::parse_filter_block() {
  ExprPtr filter = parse_filters(nullptr, true);
  Body body = parse_frame({"endfilter"}, "filter");
  advance();
  return {std::move(filter), std::move(body)};
}

With Parser::parse_with() {
  With node;
  while (current().kind != TokenKind::kBlockEnd) {
    if (!node.variables.empty()) expect_operator(",");
    Target target = parse_target(false, false);
    expect_operator("=");
    node.variables.emplace_back(std::move(target), parse_expression());
  }
  node.body = parse_frame({"endwith"}, "with");
  advance();
  return node;
}

Block Parser::parse_block() {
  const int line = current().line;
  const std::string name = expect_any_name();
  if (std::find(blocks_.begin(), blocks_.end(), name) != blocks_.end()) {
    fail(line, fmt::format("block '{}' defined twice", name));
  }
  blocks_.push_back(name);
  const bool scoped = skip_name("scoped");
  skip_name("required");
  const int loops = std::exchange(loops_, 0);
  Block node{scoped, parse_frame({"endblock"}, "block")};
  loops_ = loops;
  advance();
  skip_name(name);
  return node;
}

Scope Parser::parse_autoescape() {
  const int line = current().line;
  const ExprPtr value = parse_expression();
  const auto* literal = std::get_if<Literal>(&value->node);
  if (!literal || truth(literal->value)) fail(line, "autoescape is not supported");
  Scope node{parse_frame({"endautoescape"}, "autoescape")};
  advance();
  return node;
}

// Jinja, too, fails for these only when they run: there is no loader.
Unsupported Parser::parse_unsupported(std::string_view tag) {
  while (current().kind != TokenKind::kBlockEnd && current().kind != TokenKind::kEnd) advance();
  return {std::string(tag)};
}

Target Parser::parse_one_target(bool with_namespace) {
  const Nesting nesting(*this);
  Target target{.line = current().line};
  if (skip_operator("(")) {
    target = parse_target(with_namespace, false);
    expect_operator(")");
    return target;
  }
  target.name = expect_any_name();
  if (target.name == "true" || target.name == "false" || target.name == "none" || target.name == "True" ||
      target.name == "False" || target.name == "None") {
    fail(target.line, "can't assign to 'const'");
  }
  if (target.name == "loop" && loops_ > 0)
    fail(target.line, "Can't assign to special loop variable in for-loop target");
  if (with_namespace && skip_operator(".")) target.attribute = expect_any_name();
  return target;
}

Target Parser::parse_target(bool with_namespace, bool ends_with_in) {
  Target tuple{.line = current().line, .is_tuple = true};
  bool has_comma = false;
  while (true) {
    if (!tuple.items.empty()) expect_operator(",");
    if (current().kind == TokenKind::kBlockEnd || at_operator(")") || (ends_with_in && at_name("in"))) break;
    tuple.items.push_back(parse_one_target(with_namespace));
    if (!at_operator(",")) break;
    has_comma = true;
  }
  if (tuple.items.empty()) fail(tuple.line, fmt::format("Expected an expression, got '{}'", describe(current())));
  if (!has_comma) return std::move(tuple.items[0]);
  return tuple;
}

}  // namespace gabbro::jinja
