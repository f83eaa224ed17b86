// Making nodes of expressions: their depth in the tree is bounded.
#pragma once

#include <algorithm>

#include "src/jinja/parser.h"
#include "src/jinja/parser_nesting.h"

namespace gabbro::jinja {

template <class T>
ExprPtr Parser::make(int line, T node, int depth) {
  if (depth >= kMaxTreeDepth) fail(line, "the expression nests too deeply");
  auto expr = std::make_unique<Expr>(Expr{.line = line, .depth = depth + 1, .node = std::move(node)});
  return expr;
}

inline int deepest_of(const std::vector<ExprPtr>& items) {
  int depth = 0;
  for (const ExprPtr& item : items) depth = std::max(depth, item->depth);
  return depth;
}

}  // namespace gabbro::jinja
