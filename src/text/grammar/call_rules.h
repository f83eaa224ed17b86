// Calls of tools in the form of each family, as rules.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "src/text/chat/tool_calls.h"
#include "src/text/grammar/rules.h"

namespace gabbro::text::grammar {

// A call, or where `is_list` several in one list: `marker` and `rest`. Several follow each other with `between`.
struct CallRules {
  std::string marker;             // text that only calls begin with; empty: calls are the whole answer
  ExprId rest = 0;                // after the marker and `space`
  std::string space{};            // as models are told to write it
  std::string open_marker{};      // a regular expression: all spellings of the marker, with any `space` after it
  std::string before{}, after{};  // of an answer that is nothing but calls
  std::string between{};
  bool is_list = false;
  bool ends_answer = false;  // nothing may follow
};

// `tools`: a list of {"name", "parameters"?, "strict"?}. `several`: in a list. Throws bad_input that names the tool,
// for a schema that is wrong, not supported, or cannot be obeyed in this form.
CallRules add_call(Rules& rules, const nlohmann::ordered_json& tools, ToolCallFormat format, bool several);

}  // namespace gabbro::text::grammar
