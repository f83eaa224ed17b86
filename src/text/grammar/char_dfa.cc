#include "src/text/grammar/char_dfa.h"

#include <algorithm>
#include <map>
#include <set>

#include "src/base/error.h"

namespace gabbro::text::grammar {
namespace {

constexpr size_t kMostStates = 20'000;

void check_size(const Rules& rules, size_t states) {
  if (states > kMostStates) throw bad_input("a pattern with its length needs more than {} states", kMostStates);
  if (states % 64 == 0) rules.check_time();
}

// Thompson's automaton of a pattern.
class Nfa {
 public:
  struct State {
    std::vector<uint32_t> empty{};  // edges without a character
    CharSet set{};
    uint32_t to = 0;  // by a character of the set
  };

  Nfa(const Rules& rules, const Pattern& pattern) : rules_(rules) {
    const uint32_t end = add();
    start = build(pattern, end);
  }
  std::vector<State> states;
  uint32_t start = 0;
  static constexpr uint32_t kEnd = 0;

 private:
  uint32_t add() {
    check_size(rules_, states.size());
    states.emplace_back();
    return static_cast<uint32_t>(states.size() - 1);
  }
  uint32_t build(const Pattern& pattern, uint32_t next) {
    switch (pattern.kind) {
      case Pattern::Kind::kSet: {
        const uint32_t state = add();
        states[state].set = pattern.set;
        states[state].to = next;
        return state;
      }
      case Pattern::Kind::kChoice: {
        std::vector<uint32_t> parts;
        for (const Pattern& part : pattern.parts) parts.push_back(build(part, next));
        const uint32_t state = add();
        states[state].empty = std::move(parts);
        return state;
      }
      case Pattern::Kind::kRepeat:
        return repeat(pattern, next);
      default:
        for (size_t i = pattern.parts.size(); i-- > 0;) next = build(pattern.parts[i], next);
        return next;
    }
  }
  uint32_t repeat(const Pattern& pattern, uint32_t next) {
    const Pattern& part = pattern.parts.front();
    uint32_t state = next;
    if (pattern.most == kUnbounded) {
      state = add();
      const uint32_t body = build(part, state);
      states[state].empty = {body, next};
    } else {
      for (int32_t i = pattern.least; i < pattern.most; ++i) {
        const uint32_t body = build(part, state);
        state = add();
        states[state].empty = {body, next};
      }
    }
    for (int32_t i = 0; i < pattern.least; ++i) state = build(part, state);
    return state;
  }

  const Rules& rules_;
};

using Members = std::vector<uint32_t>;  // ascending

Members closure(const Nfa& nfa, Members open) {
  std::set<uint32_t> seen(open.begin(), open.end());
  while (!open.empty()) {
    const uint32_t state = open.back();
    open.pop_back();
    for (const uint32_t next : nfa.states[state].empty) {
      if (seen.insert(next).second) open.push_back(next);
    }
  }
  return {seen.begin(), seen.end()};
}

}  // namespace

CharDfa CharDfa::of_pattern(const Rules& rules, const Pattern& pattern) {
  const Nfa nfa(rules, pattern);
  CharDfa dfa;
  std::map<Members, uint32_t> numbers;
  std::vector<Members> open;
  const auto number_of = [&](const Members& members) {
    const auto [found, is_new] = numbers.emplace(members, static_cast<uint32_t>(numbers.size()));
    if (is_new) {
      check_size(rules, numbers.size());
      dfa.states_.push_back({.accepts = std::ranges::binary_search(members, Nfa::kEnd)});
      open.push_back(members);
    }
    return found->second;
  };
  number_of(closure(nfa, {nfa.start}));
  for (size_t i = 0; i < open.size(); ++i) {
    rules.check_time();
    const Members members = open[i];
    // Between two cuts all characters have the same edges.
    std::set<uint32_t> cuts;
    for (const uint32_t member : members) {
      for (const auto& [first, last] : nfa.states[member].set.ranges()) {
        cuts.insert(first);
        cuts.insert(last + 1);
      }
    }
    for (auto cut = cuts.begin(); cut != cuts.end() && std::next(cut) != cuts.end(); ++cut) {
      Members next;
      for (const uint32_t member : members) {
        if (nfa.states[member].set.contains(*cut)) next.push_back(nfa.states[member].to);
      }
      if (next.empty()) continue;
      const uint32_t to = number_of(closure(nfa, std::move(next)));
      std::vector<Edge>& edges = dfa.states_[i].edges;
      if (!edges.empty() && edges.back().to == to && edges.back().last + 1 == *cut) {
        edges.back().last = *std::next(cut) - 1;
      } else {
        edges.push_back({*cut, *std::next(cut) - 1, to});
      }
    }
  }
  dfa.trim();
  return dfa;
}

CharDfa CharDfa::of_length(const Rules& rules, int32_t least, int32_t most) {
  CharDfa dfa;
  const int32_t last = most == kUnbounded ? least : most;
  check_size(rules, static_cast<size_t>(last));
  for (int32_t i = 0; i <= last; ++i) {
    State state{.accepts = i >= least};
    if (i < last) state.edges.push_back({0, kLastCharacter, static_cast<uint32_t>(i) + 1});
    if (i == last && most == kUnbounded) state.edges.push_back({0, kLastCharacter, static_cast<uint32_t>(i)});
    dfa.states_.push_back(std::move(state));
  }
  dfa.trim();
  return dfa;
}

CharDfa CharDfa::of_texts(const Rules& rules, std::span<const std::u32string> texts) {
  std::vector<std::map<uint32_t, uint32_t>> edges(1);
  std::vector<bool> accepts(1);
  for (const std::u32string& text : texts) {
    uint32_t at = 0;
    for (const char32_t c : text) {
      const auto [found, is_new] = edges[at].emplace(c, static_cast<uint32_t>(edges.size()));
      at = found->second;
      if (!is_new) continue;
      edges.emplace_back();
      accepts.push_back(false);
      check_size(rules, edges.size() / 8);  // lists of names are longer than patterns
    }
    accepts[at] = true;
  }
  CharDfa dfa;
  for (size_t i = 0; i < edges.size(); ++i) {
    State state{.accepts = accepts[i]};
    for (const auto& [c, to] : edges[i]) state.edges.push_back({c, c, to});
    dfa.states_.push_back(std::move(state));
  }
  dfa.trim();
  return dfa;
}

CharDfa CharDfa::of_states(std::vector<State> states) {
  CharDfa dfa;
  dfa.states_ = std::move(states);
  dfa.trim();
  return dfa;
}

CharDfa CharDfa::intersect(const Rules& rules, const CharDfa& other) const {
  CharDfa dfa;
  if (is_empty() || other.is_empty()) return dfa;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers;
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  const auto number_of = [&](std::pair<uint32_t, uint32_t> pair) {
    const auto [found, is_new] = numbers.emplace(pair, static_cast<uint32_t>(pairs.size()));
    if (is_new) {
      check_size(rules, pairs.size() / 8);
      pairs.push_back(pair);
      dfa.states_.push_back({.accepts = states_[pair.first].accepts && other.states_[pair.second].accepts});
    }
    return found->second;
  };
  number_of({0, 0});
  for (size_t i = 0; i < pairs.size(); ++i) {
    const std::vector<Edge>&a = states_[pairs[i].first].edges, &b = other.states_[pairs[i].second].edges;
    for (size_t j = 0, k = 0; j < a.size() && k < b.size();) {
      const uint32_t first = std::max(a[j].first, b[k].first), last = std::min(a[j].last, b[k].last);
      if (first <= last) {
        const uint32_t to = number_of({a[j].to, b[k].to});
        dfa.states_[i].edges.push_back({first, last, to});
      }
      a[j].last < b[k].last ? ++j : ++k;
    }
  }
  dfa.trim();
  return dfa;
}

CharDfa CharDfa::complement() const {
  CharDfa dfa = *this;
  if (dfa.states_.empty()) dfa.states_.emplace_back();
  const auto free = static_cast<uint32_t>(dfa.states_.size());
  dfa.states_.emplace_back();
  for (State& state : dfa.states_) {
    state.accepts = !state.accepts;
    std::vector<Edge> edges;
    uint32_t next = 0;
    for (const Edge& edge : state.edges) {
      if (edge.first > next) edges.push_back({next, edge.first - 1, free});
      edges.push_back(edge);
      next = edge.last + 1;
    }
    if (next <= kLastCharacter) edges.push_back({next, kLastCharacter, free});
    state.edges = std::move(edges);
  }
  dfa.trim();
  return dfa;
}

bool CharDfa::accepts(std::u32string_view text) const {
  if (is_empty()) return false;
  uint32_t at = 0;
  for (const char32_t c : text) {
    const auto edge =
        std::ranges::find_if(states_[at].edges, [&](const Edge& e) { return e.first <= c && c <= e.last; });
    if (edge == states_[at].edges.end()) return false;
    at = edge->to;
  }
  return states_[at].accepts;
}

// Removes states that lead to none that accepts.
void CharDfa::trim() {
  for (State& state : states_)  // UTF-8 has no surrogates
    std::erase_if(state.edges, [](const Edge& edge) { return edge.first >= 0xD800 && edge.last <= 0xDFFF; });
  std::vector<std::vector<uint32_t>> before(states_.size());
  std::vector<uint32_t> open;
  std::vector<bool> lives(states_.size());
  for (uint32_t i = 0; i < states_.size(); ++i) {
    for (const Edge& edge : states_[i].edges) before[edge.to].push_back(i);
    if (!states_[i].accepts) continue;
    lives[i] = true;
    open.push_back(i);
  }
  while (!open.empty()) {
    const uint32_t state = open.back();
    open.pop_back();
    for (const uint32_t one : before[state]) {
      if (lives[one]) continue;
      lives[one] = true;
      open.push_back(one);
    }
  }
  if (states_.empty() || !lives[0]) return states_.clear();
  std::vector<uint32_t> numbers(states_.size());
  uint32_t count = 0;
  for (size_t i = 0; i < states_.size(); ++i) numbers[i] = lives[i] ? count++ : 0;
  std::vector<State> kept;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (!lives[i]) continue;
    std::erase_if(states_[i].edges, [&](const Edge& edge) { return !lives[edge.to]; });
    for (Edge& edge : states_[i].edges) edge.to = numbers[edge.to];
    kept.push_back(std::move(states_[i]));
  }
  states_ = std::move(kept);
}

ExprId CharDfa::expr(Rules& rules, Encoding encoding) const {
  if (is_empty()) return rules.nothing();
  Graph graph;
  std::map<std::vector<std::pair<uint32_t, uint32_t>>, ExprId> labels;  // by their ranges
  const auto label_of = [&](const CharSet& set) {
    std::vector<std::pair<uint32_t, uint32_t>> ranges;
    for (const auto& [first, last] : set.ranges()) ranges.emplace_back(first, last);
    const auto [found, is_new] = labels.try_emplace(std::move(ranges), 0);
    if (is_new) found->second = character(rules, set, encoding);
    return found->second;
  };
  for (const State& state : states_) {
    std::map<uint32_t, CharSet> sets;
    for (const Edge& edge : state.edges) sets[edge.to].add(edge.first, edge.last);
    Graph::State& made = graph.states.emplace_back();
    made.accepts = state.accepts;
    for (const auto& [to, set] : sets) made.edges.push_back({label_of(set), to});
  }
  return rules.graph(std::move(graph));
}

CharDfa texts_without(const Rules& rules, std::string_view part) { return texts_without(rules, literal_pattern(part)); }

CharDfa texts_without(const Rules& rules, Pattern part) {
  const Pattern any = repeat_pattern(any_character(), 0, kUnbounded);
  Pattern pattern;
  pattern.parts.push_back(any);
  pattern.parts.push_back(std::move(part));
  pattern.parts.push_back(any);
  return CharDfa::of_pattern(rules, pattern).complement();
}

}  // namespace gabbro::text::grammar
