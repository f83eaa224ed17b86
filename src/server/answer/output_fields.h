// The form that an answer has to have, from the fields of a request: response_format of OpenAI, structured_outputs and
// guided_* of vLLM, grammar and json_schema of llama.cpp, format of Ollama.
#pragma once

#include "gabbro/output_format.h"
#include "src/server/answer/prompt.h"
#include "src/server/json/request_json.h"
#include "src/server/models/model_source.h"
#include "src/text/chat/thoughts.h"
#include "src/text/chat/tool_calls.h"

namespace gabbro::server {

using text::ThoughtReading;
using text::ThoughtSplitter;

// Reads the fields, and compiles their grammar. Throws ApiError 400 that names the field for more than one of them, and
// for a schema, grammar or expression that is wrong or not supported.
OutputFormat read_output_format(Fields& fields, const LoadedModel& model);
OutputFormat read_ollama_format(Fields& fields, const LoadedModel& model);
OutputFormat read_responses_format(Fields& fields, const LoadedModel& model);  // text.format
OutputFormat read_anthropic_format(Fields& fields, const LoadedModel& model);  // output_config.format, output_format
// Compiles the format's grammar, and returns the format. Throws ApiError 400 that names `field`.
OutputFormat check_format(const std::string& field, OutputFormat format, const LoadedModel& model);

// The answer obeys the format; where the prompt has opened thoughts, what comes after them. Control tokens that begin
// or end thoughts and calls become a part of the text. Returns how thoughts are separated from it.
ThoughtReading apply_output_format(OutputFormat format, const ChatPromptTokens& prompt, text::ToolCallFormat calls,
                                   GenerateOptions& options);

}  // namespace gabbro::server
