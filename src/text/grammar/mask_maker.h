// The tokens that may follow a state of an automaton, found by one walk over the trie of the vocabulary and cached.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>

#include "src/text/grammar/automaton.h"
#include "src/text/grammar/token_trie.h"

namespace gabbro::text::grammar {

// Not thread-safe.
class MaskMaker {
 public:
  MaskMaker(std::shared_ptr<const Program> program, std::shared_ptr<const TokenTrie> tokens);

  Automaton& automaton() { return automaton_; }
  const TokenTrie& tokens() const { return *tokens_; }
  const std::shared_ptr<const TokenTrie>& shared_tokens() const { return tokens_; }
  // Throws as Automaton::next().
  std::shared_ptr<const TokenMask> mask(Automaton::State state);
  // Without the cache and without slices, for tests and benchmarks.
  TokenMask walk(Automaton::State state);
  // Whether it takes so much memory that new texts should begin with another one.
  bool is_full() const;

 private:
  using State = Automaton::State;
  void walk(State state, std::span<const TokenTrie::Node> nodes, TokenMask& mask);
  const std::optional<std::vector<State>>& after_plain(State state);
  size_t plain_length(State state, size_t most);

  Automaton automaton_;
  std::shared_ptr<const TokenTrie> tokens_;
  std::vector<State> path_;
  std::unordered_map<State, std::shared_ptr<const TokenMask>> masks_;
  std::unordered_map<State, std::optional<std::vector<State>>> after_plain_;
};

}  // namespace gabbro::text::grammar
