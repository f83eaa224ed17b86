// The tokens of a vocabulary as a trie over their bytes, stored flat in depth-first order, and masks of tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gabbro::text {
class Tokenizer;  // src/text/tokenizer.h
}

namespace gabbro::text::grammar {

// A bit per token.
class TokenMask {
 public:
  explicit TokenMask(size_t tokens) : words_((tokens + 63) / 64) {}
  void set(int32_t token) { words_[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64); }
  bool has(int32_t token) const {
    return static_cast<size_t>(token) / 64 < words_.size() &&
           (words_[static_cast<size_t>(token) / 64] >> (token % 64) & 1) != 0;
  }
  void add(const TokenMask& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  std::span<const uint64_t> words() const { return words_; }
  bool operator==(const TokenMask&) const = default;

 private:
  std::vector<uint64_t> words_;
};

class TokenTrie {
 public:
  struct Node {
    uint32_t end;    // the node after its subtree
    int32_t token;   // that ends here; -1: none. More tokens of the same bytes follow in `next_equal`.
    uint16_t depth;  // bytes up to and with this one, minus 1
    uint8_t byte;
  };

  // `pieces`: the bytes of each token; empty: a token that no text contains.
  explicit TokenTrie(std::vector<std::string> pieces);

  size_t size() const { return pieces_.size(); }
  const std::string& piece(int32_t token) const { return pieces_[static_cast<size_t>(token)]; }
  // The next token with the bytes of this one; -1: none. Node::token is the first one.
  int32_t next_equal(int32_t token) const { return next_equal_[static_cast<size_t>(token)]; }
  size_t longest() const { return longest_; }

  // Tokens of plain characters (is_plain_text) with at most `longest` bytes: a state that takes all plain characters
  // takes each of them.
  struct Slice {
    size_t longest;
    TokenMask mask;
  };
  std::span<const Slice> slices() const { return slices_; }
  // The trie without the tokens of the first `slices` slices.
  std::span<const Node> nodes(size_t slices = 0) const { return tries_[slices]; }

 private:
  std::vector<Node> build(const std::vector<int32_t>& sorted) const;

  std::vector<std::string> pieces_;
  std::vector<int32_t> next_equal_;
  std::vector<Slice> slices_;
  std::vector<std::vector<Node>> tries_;
  size_t longest_ = 0;
};

// Whole characters of UTF-8 that a JSON string holds without an escape: no control character, quote or backslash.
bool is_plain_text(std::string_view text);

// Control tokens have no bytes here: only text obeys a grammar.
TokenTrie make_token_trie(const Tokenizer& tokenizer);

}  // namespace gabbro::text::grammar
