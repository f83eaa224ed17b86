// Finds special tokens (control tokens, and those that the user of a model has added) in text, before anything else is
// done.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "src/jinja/marked_text.h"
#include "src/text/vocabulary.h"

namespace gabbro::text {

struct Fragment {
  std::string_view text;     // plain text, where `token` is kNoToken
  int32_t token = kNoToken;  // else the special token that stood here
};

// <|im_start|>, <|turn>, <turn|>, <｜User｜>, <start_of_turn>: what chat templates write between messages. Some files
// list them as tokens that users have added.
bool structures_conversations(std::string_view token);

// Longer tokens go first, wherever they stand; of equally long ones, the one further left. White space that a token
// swallows (kStripLeft, kStripRight) belongs to no fragment.
class SpecialSplitter {
 public:
  explicit SpecialSplitter(const Vocabulary& vocabulary);

  // With `parse_control` false, control tokens are not looked for, as llama.cpp does it. In `input`, and across its
  // edges, neither are tokens that users have added and that structure a conversation: tokens like <|...|>, and
  // those that end a generation or a turn.
  std::vector<Fragment> split(std::string_view text, bool parse_control,
                              std::span<const jinja::InputSpan> input = {}) const;

 private:
  enum class Kind : uint8_t { kPlain, kStructural, kControl };
  struct Node {  // of a trie over the bytes of the special tokens
    int32_t token = kNoToken;
    Kind kind = Kind::kPlain;
    int32_t first_child = 0, children = 0;  // in edges_
  };
  struct Edge {
    uint8_t byte;
    int32_t node;
  };
  struct Limits {  // longest matches in bytes, by Kind
    size_t plain, structural, control;
    size_t of(Kind kind) const {
      return kind == Kind::kPlain ? plain : kind == Kind::kStructural ? structural : control;
    }
  };
  struct Match {
    size_t begin, length;
    int32_t token;
    Limits limits;
    bool operator<(const Match& other) const {
      return length != other.length ? length < other.length : begin > other.begin;
    }
  };

  int32_t child(int32_t node, uint8_t byte) const;
  Kind kind_of(int32_t token) const;
  Match longest_match(std::string_view text, size_t at, const Limits& limits) const;
  std::vector<Match> find_matches(std::string_view text, bool parse_control,
                                  std::span<const jinja::InputSpan> input) const;
  std::vector<Match> choose(std::string_view text, std::vector<Match> heap) const;

  const Vocabulary& vocabulary_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::vector<int32_t> roots_;  // by first byte; kNoToken where no special token begins so
};

}  // namespace gabbro::text
