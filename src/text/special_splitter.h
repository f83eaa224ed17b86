// Finds special tokens (control tokens, and those that the user of a model has added) in text, before anything else is
// done.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "src/text/vocabulary.h"

namespace gabbro::text {

struct Fragment {
  std::string_view text;     // plain text, where `token` is kNoToken
  int32_t token = kNoToken;  // else the special token that stood here
};

// Longer tokens go first, wherever they stand; of equally long ones, the one further left. White space that a token
// swallows (kStripLeft, kStripRight) belongs to no fragment.
class SpecialSplitter {
 public:
  explicit SpecialSplitter(const Vocabulary& vocabulary);

  // With `parse_control` false, only the tokens that users have added are looked for: text from outside cannot forge
  // others.
  std::vector<Fragment> split(std::string_view text, bool parse_control) const;

 private:
  struct Node {  // of a trie over the bytes of the special tokens
    int32_t token = kNoToken;
    int32_t first_child = 0, children = 0;  // in edges_
  };
  struct Edge {
    uint8_t byte;
    int32_t node;
  };
  struct Match {
    size_t begin, length;
    int32_t token;
    bool operator<(const Match& other) const {
      return length != other.length ? length < other.length : begin > other.begin;
    }
  };

  int32_t child(int32_t node, uint8_t byte) const;
  Match longest_match(std::string_view text, size_t at, size_t limit, bool parse_control) const;
  std::vector<Match> choose(std::string_view text, bool parse_control) const;

  const Vocabulary& vocabulary_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::vector<int32_t> roots_;  // by first byte; kNoToken where no special token begins so
};

}  // namespace gabbro::text
