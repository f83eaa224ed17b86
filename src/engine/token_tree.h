// Drafted tokens that one pass verifies: branches that have a beginning in common share its tokens.
#pragma once

#include <cstdint>
#include <vector>

namespace gabbro {

struct TokenTree {
  struct Node {
    int32_t token;
    int32_t parent;  // its number, smaller than the node's own; -1: the node follows the text
  };
  std::vector<Node> nodes;

  int32_t add(int32_t parent, int32_t token) {
    nodes.push_back({token, parent});
    return static_cast<int32_t>(nodes.size()) - 1;
  }
  // The child of a node (-1: of the text) with this token; -1: there is none.
  int32_t child(int32_t parent, int32_t token) const;
  bool has_children(int32_t node) const;
  std::vector<int32_t> leaves() const;
  // Nodes from the first one after the text to this one.
  std::vector<int32_t> path(int32_t node) const;
};

}  // namespace gabbro
