// The answer of a model that may call tools, while it is generated: thoughts, text and calls. Calls within thoughts are
// no calls.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/text/chat/thoughts.h"
#include "src/text/chat/tool_calls.h"

namespace gabbro::cli {

// A call of a tool that an answer has.
struct ModelCall {
  std::string id, name, arguments;  // the arguments as the model wrote them, in JSON
};

class ToolAnswer {
 public:
  ToolAnswer(const text::ThoughtReading& thoughts, text::ToolCallFormat calls, const text::KnownTools& tools)
      : form_(thoughts.form), splitter_(thoughts.mode, thoughts.form), parser_(calls, tools) {}

  // Takes a piece of the answer, and returns what can be shown: text, and thoughts between their tags.
  std::string feed(std::string_view piece);
  std::string finish();

  const std::string& thought() const { return thought_; }
  const std::string& text() const { return text_; }  // without thoughts and calls
  // Complete ones, without ids.
  const std::vector<ModelCall>& calls() const { return calls_; }

 private:
  std::string take(const std::vector<text::AnswerPiece>& pieces);
  std::string take_calls(const std::vector<text::ToolCallPiece>& pieces);
  std::string leave_thought();

  const text::ThoughtForm form_;
  text::ThoughtSplitter splitter_;
  text::ToolCallParser parser_;  // of all but thoughts
  bool in_thought_ = false;
  std::string thought_, text_;
  std::vector<ModelCall> calls_;
  ModelCall open_;  // not complete
};

}  // namespace gabbro::cli
