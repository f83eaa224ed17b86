// Calls of tools in an answer's text, recognized while it is generated.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/chat/json_repair.h"

namespace gabbro::text {

enum class ToolCallFormat {
  kNone,
  kHermes,  // <tool_call>{"name": ..., "arguments": {...}}</tool_call>, anywhere and several: Hermes, Qwen 2.5 and 3
  kLlama3   // {"name": ..., "parameters": {...}} as the whole answer; several after ";"
};

// The format that a model's chat template (Jinja or Go) teaches; kNone: not known.
ToolCallFormat tool_call_format(std::string_view template_source);

struct ToolCallPiece {
  enum class Kind {
    kText,       // outside of calls
    kCall,       // a call begins; `text`: the name
    kArguments,  // bytes of its JSON object
    kEnd         // the call is complete
  };
  Kind kind;
  std::string text{};
  bool operator==(const ToolCallPiece&) const = default;
};

// The pieces, joined where neighbors have one kind, are the same for every cut of the text. Text that begins like a
// call and is not one stays text. White space next to calls is left out. Arguments are passed as they come, repaired by
// JsonRepair; of a call whose name is known and whose arguments are not JSON, the rest is passed unchanged.
class ToolCallParser {
 public:
  // `names`: of the tools. In a format without a marker only they are calls.
  ToolCallParser(ToolCallFormat format, std::set<std::string> names);

  std::vector<ToolCallPiece> feed(std::string_view text);
  std::vector<ToolCallPiece> finish();

 private:
  enum class State { kText, kPlain, kOpen, kKey, kKeyText, kColon, kValue, kAfterValue, kBroken, kAfterCall };
  enum class Key { kName, kArguments, kOther };

  void step(char c);
  void step_text(char c);
  void step_bare(char c);
  void step_object(char c);
  void step_key(char c);
  void step_value(char c);
  void step_broken(char c);
  void step_after_call(char c);
  void begin_call();
  void begin_value(char c);
  void end_value(char c);
  void end_call(char c);
  void announce();
  void reject(char c);
  void release();
  void emit(ToolCallPiece::Kind kind, std::string_view text);
  bool has_marker() const { return format_ == ToolCallFormat::kHermes; }

  const ToolCallFormat format_;
  const std::set<std::string> names_;
  State state_ = State::kText;
  std::string blanks_, held_;  // white space, and what follows it: text or a call
  bool after_call_ = false;
  // The call that is being read.
  JsonRepair repair_;
  std::string key_text_, value_, name_, arguments_;
  Key key_ = Key::kOther;
  bool begun_ = false, streams_ = false;  // of the member's value
  bool announced_ = false, has_arguments_ = false, has_extra_brace_ = false;
  std::vector<ToolCallPiece> pieces_;
};

}  // namespace gabbro::text
