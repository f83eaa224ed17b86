// The channels of gpt-oss ("harmony", github.com/openai/harmony) in an answer's text: its thoughts in "analysis", what
// it says to tools in "commentary", and the answer in "final".
#pragma once

#include <string>
#include <string_view>

namespace gabbro::text {

// Splits an answer while it is generated. An answer that does not begin with a channel is passed through unchanged.
class HarmonyChannels {
 public:
  // Takes a piece of text, and returns what can be shown: the answer, and the text of other channels after their name
  // in brackets, with an empty line after it.
  std::string feed(std::string_view piece);
  // The rest, at the end of the answer.
  std::string finish();

  // The text of the final channel; without channels all of it.
  const std::string& answer() const { return answer_; }

 private:
  enum class State { kUndecided, kPlain, kHeader, kBody, kBetween };

  std::string advance(bool at_end);
  std::string take(std::string_view text);
  std::string follow(std::string_view marker);
  std::string leave_body();

  State state_ = State::kUndecided;
  std::string pending_;  // not looked at, or the begin of a marker
  std::string channel_, answer_;
};

}  // namespace gabbro::text
