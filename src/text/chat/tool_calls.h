// Calls of tools in an answer's text, recognized while it is generated.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gabbro::text {

class CallReader;  // calls/call_reader.h

enum class ToolCallFormat {
  kNone,
  kHermes,  // <tool_call>{"name": ..., "arguments": {...}}</tool_call>, anywhere and several: Hermes, Qwen, Granite
  kLlama3,  // {"name": ..., "parameters": {...}} as the whole answer; several after ";"
  kMistralList,  // [TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]
  kMistral,      // [TOOL_CALLS]name[ARGS]{...}, several
  kCommand,      // <|START_ACTION|>[{"tool_name": ..., "parameters": {...}}, ...]<|END_ACTION|>
  kPhi4,         // functools[{"name": ..., "arguments": {...}}, ...]
  kGranite,      // <|tool_call|>[{"name": ..., "arguments": {...}}, ...]
  kDeepSeek,  // <｜tool▁call▁begin｜>name<｜tool▁sep｜>{...}<｜tool▁call▁end｜>, and V3's form with a fence
  kKimi,      // <|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{...}<|tool_call_end|>
  kHarmony,        // <|channel|>commentary to=functions.name<|message|>{...}<|call|>: gpt-oss
  kQwenTags,       // <function=name><parameter=key>value</parameter></function>: Qwen3-Coder
  kGlm,            // <tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>
  kMiniMax,        // <invoke name="name"><parameter name="key">value</parameter></invoke>
  kDsml,           // as MiniMax, in tags of "｜DSML｜": DeepSeek V3.2
  kPythonic,       // [name(key='value'), ...] as the whole answer
  kLlama4,         // <|python_start|>[name(key='value'), ...]<|python_end|>
  kLfm2,           // <|tool_call_start|>[name(key='value'), ...]<|tool_call_end|>
  kOlmo3,          // <function_calls>name(key='value')</function_calls>
  kFunctionGemma,  // <start_function_call>call:name{key:<escape>value<escape>}<end_function_call>
  kGemma4,         // <|tool_call>call:name{key:<|"|>value<|"|>}<tool_call|>
  kGeneric         // {"tool_calls": [{"name": ..., "arguments": {...}}, ...]}, with generic_tools.h
};

// The format that a model's chat template (Jinja or Go) teaches; kNone: not known, so that kGeneric serves.
ToolCallFormat tool_call_format(std::string_view template_source);

// The parts of a format that vocabularies may have as control tokens: the parser has to see them.
std::vector<std::string> tool_call_controls(ToolCallFormat format);

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

// The names of tools, each with its parameters that are texts.
using KnownTools = std::map<std::string, std::set<std::string>>;
// The parameters that are texts by the schema of a tool's parameters.
std::set<std::string> text_parameters(const nlohmann::ordered_json& schema);

// The pieces, joined where neighbors have one kind, are the same for every cut of the text. Text that begins like a
// call and is not one stays text. White space next to calls is left out. JSON arguments are passed as they come,
// repaired by JsonRepair; of a call whose name is known and whose arguments are not JSON, the rest is passed unchanged.
// Parameters in tags or in Python's form become JSON, each when it is complete.
class ToolCallParser {
 public:
  // In a format without a marker only these tools are calls.
  ToolCallParser(ToolCallFormat format, KnownTools tools);
  ~ToolCallParser();
  ToolCallParser(ToolCallParser&&) noexcept;

  std::vector<ToolCallPiece> feed(std::string_view text);
  std::vector<ToolCallPiece> finish();

 private:
  std::unique_ptr<CallReader> reader_;
};

}  // namespace gabbro::text
