// Tools that an answer may call, from the fields of a request.
#pragma once

#include <set>
#include <string>

#include "gabbro/output_format.h"
#include "src/server/json/request_json.h"
#include "src/server/models/model_source.h"
#include "src/text/chat/tool_calls.h"

namespace gabbro::server {

// How calls are found in an answer's text; kNone: it has none.
struct CallReading {
  text::ToolCallFormat format = text::ToolCallFormat::kNone;
  std::set<std::string> names{};
};

struct RequestTools {
  Json shown{};            // to the template; null: none
  OutputFormat grammar{};  // of answers; kText: free
  CallReading reading{};
};

// Reads tools, tool_choice and parallel_tool_calls, and compiles the grammar: for calls that are required, and for
// tools that are "strict" or must be called one at a time. Tools that are not functions are left out. Throws ApiError
// 400 that names the field, also for a model whose template does not teach a form of calls that is known.
RequestTools read_tools(Fields& fields, const LoadedModel& model);

}  // namespace gabbro::server
