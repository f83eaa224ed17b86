#include "src/text/stop_matcher.h"

#include "src/base/error.h"

namespace gabbro::text {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 16;

}  // namespace

StopMatcher::StopMatcher(const std::vector<std::string>& stops) : nodes_(1) {
  for (size_t i = 0; i < stops.size(); ++i) {
    int node = 0;
    for (const char byte : stops[i]) {
      int next = child(node, byte);
      if (next < 0) {
        if (nodes_.size() > kMaxBytes) throw bad_input("stop strings are too long: more than {} bytes", kMaxBytes);
        next = static_cast<int>(nodes_.size());
        const size_t depth = nodes_[static_cast<size_t>(node)].depth + 1;
        nodes_.push_back({.depth = depth});
        nodes_[static_cast<size_t>(node)].children.emplace_back(byte, next);
      }
      node = next;
    }
    Node& end = nodes_[static_cast<size_t>(node)];
    if (node != 0 && end.stop < 0) {
      end.stop = static_cast<int>(i);
      end.stop_length = stops[i].size();
    }
  }
  // Breadth first, so that every fallback is complete before it is used.
  std::vector<int> order = {0};
  for (size_t i = 0; i < order.size(); ++i) {
    const int parent = order[i];
    for (const auto& [byte, next] : nodes_[static_cast<size_t>(parent)].children) {
      order.push_back(next);
      Node& node = nodes_[static_cast<size_t>(next)];
      node.fallback = parent == 0 ? 0 : advance(nodes_[static_cast<size_t>(parent)].fallback, byte);
      const Node& suffix = nodes_[static_cast<size_t>(node.fallback)];
      if (node.stop < 0) {
        node.stop = suffix.stop;
        node.stop_length = suffix.stop_length;
      }
    }
  }
}

int StopMatcher::child(int node, char byte) const {
  for (const auto& [label, next] : nodes_[static_cast<size_t>(node)].children) {
    if (label == byte) return next;
  }
  return -1;
}

int StopMatcher::advance(int node, char byte) const {
  for (;; node = nodes_[static_cast<size_t>(node)].fallback) {
    const int next = child(node, byte);
    if (next >= 0) return next;
    if (node == 0) return 0;
  }
}

std::string StopMatcher::push(std::string_view text) {
  if (stopped()) return {};
  for (const char byte : text) {
    held_ += byte;
    node_ = advance(node_, byte);
    const Node& node = nodes_[static_cast<size_t>(node_)];
    if (node.stop < 0) continue;
    match_ = node.stop;
    held_.resize(held_.size() - node.stop_length);
    return flush();
  }
  const size_t ready = held_.size() - nodes_[static_cast<size_t>(node_)].depth;
  std::string out = held_.substr(0, ready);
  held_.erase(0, ready);
  return out;
}

std::string StopMatcher::flush() {
  node_ = 0;
  return std::exchange(held_, {});
}

}  // namespace gabbro::text
