// Tokens to syntax tree. Accepts what Jinja accepts and rejects what it rejects, with the same messages where they
// tell the user something; nesting is bounded.
#pragma once

#include <string_view>
#include <vector>

#include "src/jinja/ast.h"
#include "src/jinja/lexer.h"

namespace gabbro::jinja {

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)) {}

  Body parse();

 private:
  using Names = std::initializer_list<std::string_view>;

  // Statements (parser_stmt.cc).
  Body parse_until(Names end_tags, std::string_view opened_by);
  Body parse_body(Names end_tags, std::string_view opened_by);
  Body parse_frame(Names end_tags, std::string_view opened_by);
  [[noreturn]] void fail_end(Names end_tags, std::string_view opened_by) const;
  void parse_tag(std::string_view tag, Body* body);
  void parse_print(Body* body);
  If parse_if();
  For parse_for();
  void parse_set(int line, Body* body);
  MacroNode parse_signature(std::string name, bool has_signature);
  Macro parse_macro();
  CallBlock parse_call_block(int line);
  FilterBlock parse_filter_block();
  With parse_with();
  Block parse_block();
  Scope parse_autoescape();
  Unsupported parse_unsupported(std::string_view tag);
  Target parse_target(bool with_namespace, bool ends_with_in);
  Target parse_one_target(bool with_namespace);

  // Expressions (parser_expr.cc).
  ExprPtr parse_expression(bool with_condition = true);
  ExprPtr parse_tuple(bool with_condition = true, bool in_parentheses = false, bool ends_with_recursive = false);
  ExprPtr parse_condition();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  bool parse_comparison(Comparison* comparison);
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filter = true);
  ExprPtr parse_primary();
  ExprPtr parse_name();
  ExprPtr parse_list();
  ExprPtr parse_dict();

  // After an operand (parser_postfix.cc).
  ExprPtr parse_postfix(ExprPtr expr);
  ExprPtr parse_filters_and_tests(ExprPtr expr);
  ExprPtr parse_subscript(ExprPtr object);
  ExprPtr parse_subscribed(ExprPtr* object);
  ExprPtr parse_call(ExprPtr callee);
  ExprPtr parse_filters(ExprPtr input, bool starts_inline);
  ExprPtr parse_test(ExprPtr input);
  CallArgs parse_args();
  // How far the arguments of a call reach down.
  static int depth_of(const CallArgs& args);

  // In parser_nodes.h. `depth`: of its deepest child.
  template <class T>
  ExprPtr make(int line, T node, int depth = 0);

  // Tokens.
  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& advance();
  bool at_operator(std::string_view text) const { return is_operator(current(), text); }
  bool at_name(std::string_view text) const { return is_name(current(), text); }
  static bool is_operator(const Token& token, std::string_view text) {
    return token.kind == TokenKind::kOperator && token.text == text;
  }
  static bool is_name(const Token& token, std::string_view text) {
    return token.kind == TokenKind::kName && token.text == text;
  }
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operator(std::string_view text);
  void expect_name(std::string_view text);
  std::string expect_any_name();
  void expect(TokenKind kind, std::string_view name);
  [[noreturn]] void fail(int line, std::string_view message) const;
  [[noreturn]] void fail_expected(std::string_view what) const;

  // Filters and tests that do not exist, so far. Jinja rejects the template for one, unless it stands in a branch.
  struct Unknown {
    int line;
    std::string message;
  };
  void note_filter(const std::string& name, int line);
  void note_test(const std::string& name, int line);

  class Nesting;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;  // around the statement being parsed, within its macro
  std::vector<Unknown> unknown_;
  std::vector<std::string> blocks_;
  // The special names of macros that were read so far, by any of the enclosing macros.
  bool uses_caller_ = false, uses_kwargs_ = false, uses_varargs_ = false;
};

// Filters and tests by name (filters.cc, tests.cc).
bool has_filter(std::string_view name);
bool has_test(std::string_view name);

}  // namespace gabbro::jinja
