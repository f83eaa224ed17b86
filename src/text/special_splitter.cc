#include "src/text/special_splitter.h"

#include <algorithm>

namespace gabbro::text {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace

// The special tokens, sorted, make the trie level by level: a node is a range of them that agree up to some depth.
SpecialSplitter::SpecialSplitter(const Vocabulary& vocabulary) : vocabulary_(vocabulary), roots_(256, kNoToken) {
  std::vector<std::string_view> texts;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const bool special = vocabulary.has(id, kControlToken | kUserDefinedToken | kUnknownToken);
    if (special && !vocabulary.text(id).empty()) texts.push_back(vocabulary.text(id));
  }
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());

  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Range> ranges = {{0, texts.size(), 0}};
  nodes_.emplace_back();
  for (size_t i = 0; i < ranges.size(); ++i) {
    auto [begin, end, depth] = ranges[i];
    if (begin < end && texts[begin].size() == depth && depth > 0) nodes_[i].token = vocabulary.find(texts[begin++]);
    nodes_[i].first_child = static_cast<int32_t>(edges_.size());
    while (begin < end) {
      const char byte = texts[begin][depth];
      size_t next = begin;
      while (next < end && texts[next][depth] == byte) ++next;
      edges_.push_back({static_cast<uint8_t>(byte), static_cast<int32_t>(nodes_.size())});
      nodes_.emplace_back();
      ranges.push_back({begin, next, depth + 1});
      begin = next;
    }
    nodes_[i].children = static_cast<int32_t>(edges_.size()) - nodes_[i].first_child;
  }
  for (int32_t i = 0; i < nodes_[0].children; ++i)
    roots_[edges_[static_cast<size_t>(i)].byte] = edges_[static_cast<size_t>(i)].node;
}

int32_t SpecialSplitter::child(int32_t node, uint8_t byte) const {
  const Node& parent = nodes_[static_cast<size_t>(node)];
  const auto begin = edges_.begin() + parent.first_child, end = begin + parent.children;
  const auto edge = std::find_if(begin, end, [&](const Edge& e) { return e.byte == byte; });
  return edge == end ? kNoToken : edge->node;
}

// The longest special token at text[at] that is no longer than `limit`; length 0 where there is none.
SpecialSplitter::Match SpecialSplitter::longest_match(std::string_view text, size_t at, size_t limit,
                                                      bool parse_control) const {
  Match match{at, 0, kNoToken};
  int32_t node = roots_[static_cast<uint8_t>(text[at])];
  for (size_t length = 1; node != kNoToken; ++length) {
    if (length > limit) break;
    const int32_t token = nodes_[static_cast<size_t>(node)].token;
    if (token != kNoToken && (parse_control || !vocabulary_.has(token, kControlToken | kUnknownToken))) {
      match.length = length;
      match.token = token;
    }
    if (at + length == text.size()) break;
    node = child(node, static_cast<uint8_t>(text[at + length]));
  }
  return match;
}

std::vector<SpecialSplitter::Match> SpecialSplitter::choose(std::string_view text, bool parse_control) const {
  std::vector<Match> heap;
  for (size_t at = 0; at < text.size(); ++at) {
    if (roots_[static_cast<uint8_t>(text[at])] == kNoToken) continue;
    const Match match = longest_match(text, at, text.size() - at, parse_control);
    if (match.length > 0) heap.push_back(match);
  }
  std::vector<Match> chosen;
  if (heap.empty()) return chosen;
  std::make_heap(heap.begin(), heap.end());
  std::vector<bool> taken(text.size());
  while (!heap.empty()) {
    const Match best = heap.front();
    std::pop_heap(heap.begin(), heap.end());
    heap.pop_back();
    if (taken[best.begin]) continue;
    size_t free = 1;
    while (free < best.length && !taken[best.begin + free]) ++free;
    if (free < best.length) {  // its end is gone: the next shorter token at this place gets its turn
      const Match shorter = longest_match(text, best.begin, free, parse_control);
      if (shorter.length == 0) continue;
      heap.push_back(shorter);
      std::push_heap(heap.begin(), heap.end());
      continue;
    }
    size_t begin = best.begin, end = best.begin + best.length;
    if (vocabulary_.has(best.token, kStripLeft)) {
      while (begin > 0 && !taken[begin - 1] && is_space(text[begin - 1])) --begin;
    }
    if (vocabulary_.has(best.token, kStripRight)) {
      while (end < text.size() && !taken[end] && is_space(text[end])) ++end;
    }
    std::fill(taken.begin() + static_cast<ptrdiff_t>(begin), taken.begin() + static_cast<ptrdiff_t>(end), true);
    chosen.push_back({begin, end - begin, best.token});
  }
  std::sort(chosen.begin(), chosen.end(), [](const Match& a, const Match& b) { return a.begin < b.begin; });
  return chosen;
}

std::vector<Fragment> SpecialSplitter::split(std::string_view text, bool parse_control) const {
  std::vector<Fragment> fragments;
  size_t at = 0;
  for (const Match& match : choose(text, parse_control)) {
    if (match.begin > at) fragments.push_back({text.substr(at, match.begin - at)});
    fragments.push_back({{}, match.token});
    at = match.begin + match.length;
  }
  if (at < text.size()) fragments.push_back({text.substr(at)});
  return fragments;
}

}  // namespace gabbro::text
