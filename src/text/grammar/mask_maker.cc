#include "src/text/grammar/mask_maker.h"

#include <algorithm>

namespace gabbro::text::grammar {
namespace {

constexpr size_t kMostMaskBytes = size_t{64} << 20;
constexpr size_t kMostAutomatonBytes = size_t{64} << 20;

// Bytes of UTF-8 by what may follow them (Unicode 15, table 3-7), beginning with the first byte of a character.
enum Utf8 : uint8_t { kFirst, kOne, kTwo, kTwoAfterE0, kTwoAfterED, kThree, kThreeAfterF0, kThreeAfterF4, kUtf8States };
struct Utf8Edge {
  Utf8 from;
  uint8_t first, last;
  Utf8 to;
};
constexpr Utf8Edge kPlainEdges[] = {
    {kFirst, 0x20, 0x21, kFirst},      {kFirst, 0x23, 0x5B, kFirst},        {kFirst, 0x5D, 0x7E, kFirst},
    {kFirst, 0xC2, 0xDF, kOne},        {kFirst, 0xE0, 0xE0, kTwoAfterE0},   {kFirst, 0xE1, 0xEC, kTwo},
    {kFirst, 0xED, 0xED, kTwoAfterED}, {kFirst, 0xEE, 0xEF, kTwo},          {kFirst, 0xF0, 0xF0, kThreeAfterF0},
    {kFirst, 0xF1, 0xF3, kThree},      {kFirst, 0xF4, 0xF4, kThreeAfterF4}, {kOne, 0x80, 0xBF, kFirst},
    {kTwo, 0x80, 0xBF, kOne},          {kTwoAfterE0, 0xA0, 0xBF, kOne},     {kTwoAfterED, 0x80, 0x9F, kOne},
    {kThree, 0x80, 0xBF, kTwo},        {kThreeAfterF0, 0x90, 0xBF, kTwo},   {kThreeAfterF4, 0x80, 0x8F, kTwo},
};

}  // namespace

MaskMaker::MaskMaker(std::shared_ptr<const Program> program, std::shared_ptr<const TokenTrie> tokens)
    : automaton_(std::move(program)), tokens_(std::move(tokens)), path_(tokens_->longest() + 1) {}

void MaskMaker::walk(State state, std::span<const TokenTrie::Node> nodes, TokenMask& mask) {
  path_[0] = state;
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const State next = automaton_.next(path_[node.depth], node.byte);
    if (next == Automaton::kDead) {
      i = node.end;
      continue;
    }
    path_[node.depth + size_t{1}] = next;
    for (int32_t token = node.token; token >= 0; token = tokens_->next_equal(token)) mask.set(token);
    ++i;
  }
}

TokenMask MaskMaker::walk(State state) {
  TokenMask mask(tokens_->size());
  walk(state, tokens_->nodes(), mask);
  return mask;
}

// The states after each plain character; nothing if one of them is refused.
const std::optional<std::vector<Automaton::State>>& MaskMaker::after_plain(State state) {
  const auto [found, is_new] = after_plain_.try_emplace(state);
  if (!is_new) return found->second;
  std::vector<std::pair<Utf8, State>> open{{kFirst, state}}, seen = open;
  std::vector<State> after;
  while (!open.empty()) {
    const auto [utf8, from] = open.back();
    open.pop_back();
    for (const Utf8Edge& edge : kPlainEdges) {
      if (edge.from != utf8) continue;
      for (size_t byte = edge.first; byte <= edge.last; ++byte) {
        const State next = automaton_.next(from, static_cast<uint8_t>(byte));
        if (next == Automaton::kDead) return found->second;
        if (edge.to == kFirst) {
          if (std::ranges::find(after, next) == after.end()) after.push_back(next);
        } else if (const std::pair pair(edge.to, next); std::ranges::find(seen, pair) == seen.end()) {
          seen.push_back(pair);
          open.push_back(pair);
        }
      }
    }
  }
  return found->second = std::move(after);
}

// The largest number, at most `most`, for which each text of that many plain characters may follow.
size_t MaskMaker::plain_length(State state, size_t most) {
  constexpr size_t kMostStates = 64;
  std::vector<State> level{state}, seen = level;
  for (size_t length = 0; length < most; ++length) {
    std::vector<State> next;
    for (const State one : level) {
      const std::optional<std::vector<State>>& after = after_plain(one);
      if (!after) return length;
      for (const State other : *after) {
        if (std::ranges::find(seen, other) != seen.end()) continue;
        seen.push_back(other);
        next.push_back(other);
      }
    }
    if (next.empty()) return most;  // all states after plain characters are known
    if (seen.size() > kMostStates) return length;
    level = std::move(next);
  }
  return most;
}

std::shared_ptr<const TokenMask> MaskMaker::mask(State state) {
  std::shared_ptr<const TokenMask>& found = masks_[state];
  if (found != nullptr) return found;
  if (masks_.size() * tokens_->size() / 8 > kMostMaskBytes) {
    masks_.clear();
    after_plain_.clear();
    return mask(state);
  }
  TokenMask made(tokens_->size());
  const std::span<const TokenTrie::Slice> slices = tokens_->slices();
  const size_t length = plain_length(state, slices.empty() ? 0 : slices.back().longest);
  size_t whole = 0;
  while (whole < slices.size() && slices[whole].longest <= length) made.add(slices[whole++].mask);
  walk(state, tokens_->nodes(whole), made);
  return found = std::make_shared<const TokenMask>(std::move(made));
}

bool MaskMaker::is_full() const { return automaton_.bytes_in_use() > kMostAutomatonBytes; }

}  // namespace gabbro::text::grammar
