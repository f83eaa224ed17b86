#include "src/engine/token_tree.h"

#include <algorithm>

namespace gabbro {

int32_t TokenTree::child(int32_t parent, int32_t token) const {
  for (size_t i = static_cast<size_t>(parent + 1); i < nodes.size(); ++i) {
    if (nodes[i].parent == parent && nodes[i].token == token) return static_cast<int32_t>(i);
  }
  return -1;
}

bool TokenTree::has_children(int32_t node) const {
  return std::ranges::any_of(nodes, [&](const Node& n) { return n.parent == node; });
}

std::vector<int32_t> TokenTree::leaves() const {
  std::vector<bool> inner(nodes.size());
  for (const Node& node : nodes) {
    if (node.parent >= 0) inner[static_cast<size_t>(node.parent)] = true;
  }
  std::vector<int32_t> leaves;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!inner[i]) leaves.push_back(static_cast<int32_t>(i));
  }
  return leaves;
}

std::vector<int32_t> TokenTree::path(int32_t node) const {
  std::vector<int32_t> path;
  for (; node >= 0; node = nodes[static_cast<size_t>(node)].parent) path.push_back(node);
  std::ranges::reverse(path);
  return path;
}

}  // namespace gabbro
