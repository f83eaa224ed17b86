// Splits an answer that thinks aloud, "<think>...</think>answer", while it is generated.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gabbro::server {

struct AnswerPiece {
  std::string text;
  bool is_thought = false;
};

class ThoughtSplitter {
 public:
  enum class Mode {
    kOff,     // all of it is the answer
    kDetect,  // thoughts begin where the answer begins with the tag
    kOpen     // the prompt ended with the tag: it begins with thoughts
  };
  explicit ThoughtSplitter(Mode mode);

  // Returns the text that is certain after this piece. White space around the tags is left out. The pieces of all calls
  // together are the same for every cut of the text.
  std::vector<AnswerPiece> feed(std::string_view text);
  std::vector<AnswerPiece> finish();

 private:
  enum class State { kStart, kThoughtStart, kThought, kAnswerStart, kAnswer };
  void advance(std::vector<AnswerPiece>& pieces, bool at_end);
  void advance_thought(std::vector<AnswerPiece>& pieces, bool at_end);

  State state_;
  std::string pending_;
};

// Whether a rendered prompt ends with the open tag.
bool ends_with_open_thought(std::string_view prompt);

}  // namespace gabbro::server
