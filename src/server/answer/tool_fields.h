// Tools that an answer may call: shown to the model, and read from its answer.
#pragma once

#include <set>
#include <string>

#include "gabbro/output_format.h"
#include "src/server/answer/asked_tools.h"
#include "src/server/models/model_source.h"
#include "src/text/chat/tool_calls.h"

namespace gabbro::server {

// How calls are found in an answer's text; kNone: it has none.
struct CallReading {
  text::ToolCallFormat format = text::ToolCallFormat::kNone;
  text::KnownTools tools{};
  bool is_single = false;  // calls after the first one are left out
};

struct RequestTools {
  Json shown{};            // to the template; null: none
  OutputFormat grammar{};  // of answers; kText: free
  CallReading reading{};
  Json description{};              // of the grammar of calls: OutputFormat::source
  std::set<std::string> custom{};  // names of tools whose input is a text
  bool is_old_form = false;        // as AskedTools has it
};

// Compiles the grammar: for calls that are required, and for tools that are "strict" or must be called one at a time.
// Throws ApiError 400 that names the field.
RequestTools prepare_tools(AskedTools asked, const LoadedModel& model);

// The form of an answer that has `format`, or calls tools where there are some: only calls where they are required.
// Throws ApiError 400 that names "tools".
OutputFormat answer_format(OutputFormat format, const RequestTools& tools, const LoadedModel& model);

}  // namespace gabbro::server
