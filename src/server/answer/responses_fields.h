// The fields of OpenAI's Responses: items as messages that templates take, and variables.
#pragma once

#include "src/server/json/request_json.h"

namespace gabbro::server {

// Reads "instructions" and "input": messages, calls and their results, thoughts. Throws ApiError that names the item.
Json read_responses_messages(Fields& fields);

// Variables of the template from reasoning.effort and chat_template_kwargs.
Json read_responses_variables(Fields& fields);

// Refuses what needs a stored state, and other features that are not supported: throws ApiError 400
// "unsupported_parameter".
void refuse_unsupported_responses(Fields& fields);

}  // namespace gabbro::server
