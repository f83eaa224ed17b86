// Viterbi search for the segmentation of a text whose tokens have the largest sum of scores.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "src/text/pipeline/double_array.h"
#include "src/text/unicode/utf8.h"

namespace gabbro::text {

// Score: double as in `tokenizers`, float as in `sentencepiece`: their sums round differently.
template <class Score>
class BestPath {
 public:
  struct Part {
    size_t begin, end;
    int32_t token;
  };

  // get_score(token, length in bytes, where to put the score) is false for tokens that must not be used. A character
  // without a token may become `unknown`. If sums are equal, the first that was found stays: as in both libraries.
  template <class GetScore>
  const std::vector<Part>& find(std::string_view text, const DoubleArray& trie, int32_t unknown, Score unknown_score,
                                GetScore get_score) {
    nodes_.assign(text.size() + 1, {});
    for (size_t begin = 0; begin < text.size();) {
      const Score before = nodes_[begin].score;
      const size_t length = std::min(utf8_length(text[begin]), text.size() - begin);
      bool has_single = false;
      uint32_t node = DoubleArray::kRoot;
      for (size_t end = begin; end < text.size();) {
        if (!trie.step(node, static_cast<uint8_t>(text[end++]))) break;
        const int32_t token = trie.value(node);
        Score score = 0;
        if (token < 0 || !get_score(token, end - begin, score)) continue;
        consider(end, begin, token, score + before);
        has_single = has_single || end - begin == length;
      }
      if (!has_single) consider(begin + length, begin, unknown, unknown_score + before);
      begin += length;
    }
    parts_.clear();
    for (size_t end = text.size(); end > 0; end = nodes_[end].begin)
      parts_.push_back({nodes_[end].begin, end, nodes_[end].token});
    std::reverse(parts_.begin(), parts_.end());
    return parts_;
  }

 private:
  static constexpr size_t kNowhere = SIZE_MAX;
  struct Node {
    Score score = 0;
    size_t begin = kNowhere;  // of the last token of the best path that ends here
    int32_t token = -1;
  };

  void consider(size_t end, size_t begin, int32_t token, Score score) {
    Node& node = nodes_[end];
    if (node.begin == kNowhere || score > node.score) node = {score, begin, token};
  }

  std::vector<Node> nodes_;
  std::vector<Part> parts_;
};

}  // namespace gabbro::text
