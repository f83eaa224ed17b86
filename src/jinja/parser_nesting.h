// The bound on how deeply tags, brackets and operators nest in a template.
#pragma once

#include "src/jinja/parser.h"

namespace gabbro::jinja {

inline constexpr int kMaxNesting = 100;    // of brackets and tags, each about twelve calls deep in the parser
inline constexpr int kMaxTreeDepth = 400;  // of the syntax tree, which a chain like a.b.c deepens without nesting

class Parser::Nesting {
 public:
  explicit Nesting(Parser& parser) : parser_(parser) {
    if (++parser_.nesting_ > kMaxNesting) {
      parser_.fail(parser_.current().line, "the template nests too deeply");
    }
  }
  ~Nesting() { --parser_.nesting_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  Parser& parser_;
};

}  // namespace gabbro::jinja
