// The syntax tree of a template in the language of Go's text/template.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/text/chat/go_template/value.h"

namespace gabbro::text::go {

struct Pipe;

// An operand: a literal, a name with the fields that follow it, or a pipeline in parentheses.
struct Operand {
  enum class Kind { kDot, kNil, kLiteral, kField, kVariable, kFunction, kPipe };
  Kind kind = Kind::kDot;
  Value literal;
  std::string name;                 // of a function or variable ("$" the root)
  std::vector<std::string> fields;  // ".A.B": A, B
  std::shared_ptr<const Pipe> pipe;
};

struct Command {
  std::vector<Operand> operands;  // the first one is called with the others, if it is a function
};

// $a, $b := command | command
struct Pipe {
  std::vector<std::string> variables;
  bool assigns = false;  // "=": to variables that there are
  std::vector<Command> commands;
};

struct Node;
using Nodes = std::vector<Node>;

struct Node {
  enum class Kind { kText, kAction, kIf, kWith, kRange, kTemplate, kBreak, kContinue };
  Kind kind = Kind::kText;
  std::string text;  // of kText; the name of kTemplate
  std::shared_ptr<const Pipe> pipe;
  Nodes body, otherwise;
};

struct Tree {
  Nodes root;
  std::map<std::string, Nodes> defined;
};

// Throws bad_input, "template: line 3: ...", for a template that Go does not accept, or that calls a function which is
// not supported.
Tree parse(const std::string& source);

// The names of all fields and variables, in lower case.
std::vector<std::string> identifiers(const Tree& tree);

// The nodes up to the first field `name`, which stays; what follows it in the branches that lead to it goes, too.
Nodes cut_after(const Nodes& nodes, const std::string& name);

}  // namespace gabbro::text::go
