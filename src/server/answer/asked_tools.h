// The tools of a request and their choice, in the fields of each dialect.
#pragma once

#include <set>
#include <string>

#include "src/server/json/request_json.h"

namespace gabbro::server {

enum class ToolChoice { kNone, kAuto, kRequired };

struct AskedTools {
  Json functions = Json::array();  // each {"name", "description"?, "parameters"?, "strict"?}
  std::set<std::string> custom{};  // names of functions whose only parameter, "input", is a custom tool's text
  ToolChoice choice = ToolChoice::kAuto;
  bool may_call_several = true;
  bool is_old_form = false;  // "functions": the answer has "function_call"
};

// Tools that are not functions are left out, and so are functions that the choice does not name. All throw ApiError 400
// that names the field.
AskedTools read_openai_tools(Fields& fields);     // tools[].function, tool_choice, parallel_tool_calls; or functions
AskedTools read_ollama_tools(Fields& fields);     // tools[].function
AskedTools read_responses_tools(Fields& fields);  // as OpenAI's chat, without the member "function"; also "custom"
AskedTools read_anthropic_tools(Fields& fields);  // tools[].input_schema, tool_choice {"type": auto, any, tool, none}

}  // namespace gabbro::server
