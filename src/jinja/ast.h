// The syntax tree of a template.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "src/jinja/operators.h"
#include "src/jinja/value.h"

namespace gabbro::jinja {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<const Expr>;
using Body = std::vector<std::unique_ptr<const Stmt>>;

struct CallArgs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;         // *args, or null
  ExprPtr double_star;  // **kwargs, or null
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct Tuple {
  std::vector<ExprPtr> items;
};
struct List {
  std::vector<ExprPtr> items;
};
struct DictLiteral {
  std::vector<std::pair<ExprPtr, ExprPtr>> items;
};
struct Concat {
  std::vector<ExprPtr> items;
};
struct Unary {
  enum Operation { kNot, kNegative, kPositive } operation;
  ExprPtr operand;
};
struct Logic {
  bool is_and;
  ExprPtr left, right;
};
struct Binary {
  Arithmetic operation;
  ExprPtr left, right;
};
enum class Comparison { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };
struct Compare {
  ExprPtr first;
  std::vector<std::pair<Comparison, ExprPtr>> rest;
};
struct Conditional {
  ExprPtr test, yes, no;
};  // `no` may be null
struct Attribute {
  ExprPtr object;
  std::string name;
};
struct Subscript {
  ExprPtr object, key;
};
struct Slice {
  ExprPtr object, start, stop, step;
};  // each bound may be null
struct Call {
  ExprPtr callee;
  CallArgs args;
};
struct Filter {
  ExprPtr input;
  std::string name;
  CallArgs args;
};  // without input: of a block's text
struct Test {
  ExprPtr input;
  std::string name;
  CallArgs args;
};

struct Expr {
  int line = 1;
  int depth = 1;  // of the tree below
  std::variant<Literal, Name, Tuple, List, DictLiteral, Concat, Unary, Logic, Binary, Compare, Conditional, Attribute,
               Subscript, Slice, Call, Filter, Test>
      node;
};

// The target of an assignment: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  int line = 1;
  std::string name;
  std::string attribute;  // of namespace `name`; empty for a plain name
  std::vector<Target> items;
  bool is_tuple = false;
};

// A macro, or the body of a call block.
struct MacroNode {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExprPtr> defaults;  // one a parameter, null where it has none
  Body body;
  bool uses_caller = false, uses_kwargs = false, uses_varargs = false;
};

struct Data {
  std::string text;
};
struct Output {
  ExprPtr value;
};
struct If {
  std::vector<std::pair<ExprPtr, Body>> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExprPtr iterable, filter;
  Body body, otherwise;
  bool recursive = false;
};
struct Set {
  Target target;
  ExprPtr value;
};
struct SetBlock {
  Target target;
  ExprPtr filter;
  Body body;
};
struct Macro {
  MacroNode macro;
};
struct CallBlock {
  ExprPtr call;
  MacroNode macro;
};
struct FilterBlock {
  ExprPtr filter;
  Body body;
};
struct With {
  std::vector<std::pair<Target, ExprPtr>> variables;
  Body body;
};
struct Block {
  bool scoped;
  Body body;
};
struct Scope {
  Body body;
};
struct LoopControl {
  bool is_break;
};
struct Unsupported {
  std::string tag;
};  // include, import, extends: fail when they run

struct Stmt {
  int line = 1;
  std::variant<Data, Output, If, For, Set, SetBlock, Macro, CallBlock, FilterBlock, With, Block, Scope, LoopControl,
               Unsupported>
      node;
};

}  // namespace gabbro::jinja
