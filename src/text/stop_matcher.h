// Ends a stream of text at the first of several stop strings, which may cross the pieces in which the text
// arrives.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gabbro::text {

// The match that is complete first counts, and of those that end together the longest: how the text is cut into pieces
// makes no difference. (Aho & Corasick 1975: time linear in the text, however many stop strings there are.)
class StopMatcher {
 public:
  // Empty strings are ignored. Throws bad_input where there are too many bytes of them (65536).
  explicit StopMatcher(const std::vector<std::string>& stops);

  // The text that can no longer belong to a stop string. Once stopped() nothing comes any more.
  std::string push(std::string_view text);

  // Text held back in case a stop string had begun, at the end of the text.
  std::string flush();

  bool stopped() const { return match_ >= 0; }
  // Index of the matched stop string in the constructor's argument; or -1.
  int match() const { return match_; }

 private:
  struct Node {  // a beginning of a stop string
    std::vector<std::pair<char, int>> children;
    int fallback = 0;  // its longest proper suffix that is a node
    int stop = -1;     // the longest stop string that is a suffix of it
    size_t stop_length = 0;
    size_t depth = 0;
  };
  int child(int node, char byte) const;
  int advance(int node, char byte) const;

  std::vector<Node> nodes_;
  std::string held_;  // ends with the present node's string
  int node_ = 0;
  int match_ = -1;
};

}  // namespace gabbro::text
