// Splits the channels of gpt-oss ("harmony"): "analysis" holds thoughts, "commentary" calls, "final" the answer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/text/chat/calls/call_reader.h"
#include "src/text/chat/thoughts.h"

namespace gabbro::text {

class HarmonySplitter {
 public:
  HarmonySplitter();

  // As ThoughtSplitter. Calls are passed as text of the answer, in the one form that ToolCallParser reads:
  // <|channel|>commentary to=functions.f<|message|>{...}<|call|>.
  void feed(std::string_view text, std::vector<AnswerPiece>& pieces);
  void finish(std::vector<AnswerPiece>& pieces);

 private:
  enum class State { kStart, kHead, kBody };
  void step(char c, std::vector<AnswerPiece>& pieces);
  void begin_body(std::vector<AnswerPiece>& pieces);
  void end_body(std::vector<AnswerPiece>& pieces);
  void add(std::string_view text, std::vector<AnswerPiece>& pieces) const;

  const MarkerSearch begins_, ends_;
  State state_ = State::kStart;
  std::string head_, held_;
  bool is_thought_ = false, is_call_ = false;  // of the body
};

}  // namespace gabbro::text
