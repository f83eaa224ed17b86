#include "apps/cli/tool_answer.h"

#include <fmt/format.h>

#include <utility>

namespace gabbro::cli {

std::string ToolAnswer::feed(std::string_view piece) { return take(splitter_.feed(piece)); }

std::string ToolAnswer::finish() {
  std::string shown = take(splitter_.finish());
  shown += leave_thought();
  return shown + take_calls(parser_.finish());
}

std::string ToolAnswer::take(const std::vector<text::AnswerPiece>& pieces) {
  std::string shown;
  for (const text::AnswerPiece& piece : pieces) {
    if (!piece.is_thought) {
      shown += leave_thought();
      shown += take_calls(parser_.feed(piece.text));
      continue;
    }
    if (!std::exchange(in_thought_, true)) shown += form_.is_harmony ? "[analysis] " : fmt::format("{}\n", form_.open);
    shown += piece.text;
    thought_ += piece.text;
  }
  return shown;
}

std::string ToolAnswer::leave_thought() {
  if (!std::exchange(in_thought_, false)) return {};
  return form_.is_harmony ? "\n\n" : fmt::format("\n{}\n\n", form_.close);
}

std::string ToolAnswer::take_calls(const std::vector<text::ToolCallPiece>& pieces) {
  using Kind = text::ToolCallPiece::Kind;
  std::string shown;
  for (const text::ToolCallPiece& piece : pieces) {
    switch (piece.kind) {
      case Kind::kText:
        shown += piece.text;
        break;
      case Kind::kCall:
        open_ = {.id = "", .name = piece.text, .arguments = ""};
        break;
      case Kind::kArguments:
        open_.arguments += piece.text;
        break;
      case Kind::kEnd:
        calls_.push_back(std::exchange(open_, {}));
        break;
    }
  }
  text_ += shown;
  return shown;
}

}  // namespace gabbro::cli
