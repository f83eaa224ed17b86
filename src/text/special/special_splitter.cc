#include "src/text/special/special_splitter.h"

#include <algorithm>

namespace gabbro::text {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace

bool structures_conversations(std::string_view text) {
  constexpr std::string_view kWideBar = "\xEF\xBD\x9C";  // U+FF5C
  if (text == "<start_of_turn>" || text == "<end_of_turn>") return true;
  if (text.size() < 4 || text.front() != '<' || text.back() != '>') return false;
  const std::string_view inside = text.substr(1, text.size() - 2);
  return inside.starts_with('|') || inside.ends_with('|') || inside.starts_with(kWideBar) || inside.ends_with(kWideBar);
}

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
    if (begin < end && texts[begin].size() == depth && depth > 0) {
      nodes_[i].token = vocabulary.find(texts[begin++]);
      nodes_[i].kind = kind_of(nodes_[i].token);
    }
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

SpecialSplitter::Kind SpecialSplitter::kind_of(int32_t token) const {
  if (vocabulary_.has(token, kControlToken | kUnknownToken)) return Kind::kControl;
  const std::vector<int32_t>& ends = vocabulary_.end_of_generation();
  const bool structural =
      std::binary_search(ends.begin(), ends.end(), token) || structures_conversations(vocabulary_.text(token));
  return structural ? Kind::kStructural : Kind::kPlain;
}

// The longest special token at text[at] within the limits; length 0: no such token.
SpecialSplitter::Match SpecialSplitter::longest_match(std::string_view text, size_t at, const Limits& limits) const {
  Match match{at, 0, kNoToken, limits};
  int32_t node = roots_[static_cast<uint8_t>(text[at])];
  for (size_t length = 1; node != kNoToken; ++length) {
    if (length > limits.plain) break;
    const Node& reached = nodes_[static_cast<size_t>(node)];
    if (reached.token != kNoToken && length <= limits.of(reached.kind)) {
      match.length = length;
      match.token = reached.token;
    }
    if (at + length == text.size()) break;
    node = child(node, static_cast<uint8_t>(text[at + length]));
  }
  return match;
}

std::vector<SpecialSplitter::Match> SpecialSplitter::find_matches(std::string_view text, bool parse_control,
                                                                  std::span<const jinja::InputSpan> input) const {
  std::vector<Match> matches;
  auto span = input.begin();
  for (size_t at = 0; at < text.size(); ++at) {
    if (roots_[static_cast<uint8_t>(text[at])] == kNoToken) continue;
    while (span != input.end() && span->end <= at) ++span;
    const size_t input_begin = span == input.end() ? text.size() : std::max(span->begin, at);
    const size_t written = input_begin - at;  // bytes from here on that are not input
    const Match match = longest_match(text, at, {text.size() - at, written, parse_control ? written : 0});
    if (match.length > 0) matches.push_back(match);
  }
  return matches;
}

std::vector<SpecialSplitter::Match> SpecialSplitter::choose(std::string_view text, std::vector<Match> heap) const {
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
      const auto within = [&](size_t limit) { return std::min(limit, free); };
      const Limits& limits = best.limits;
      const Match shorter =
          longest_match(text, best.begin, {within(limits.plain), within(limits.structural), within(limits.control)});
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
    chosen.push_back({begin, end - begin, best.token, best.limits});
  }
  std::sort(chosen.begin(), chosen.end(), [](const Match& a, const Match& b) { return a.begin < b.begin; });
  return chosen;
}

std::vector<Fragment> SpecialSplitter::split(std::string_view text, bool parse_control,
                                             std::span<const jinja::InputSpan> input) const {
  std::vector<Fragment> fragments;
  size_t at = 0;
  for (const Match& match : choose(text, find_matches(text, parse_control, input))) {
    if (match.begin > at) fragments.push_back({text.substr(at, match.begin - at)});
    fragments.push_back({{}, match.token});
    at = match.begin + match.length;
  }
  if (at < text.size()) fragments.push_back({text.substr(at)});
  return fragments;
}

}  // namespace gabbro::text
