// The fields of Anthropic's Messages: messages as templates take them, and variables.
#pragma once

#include "src/server/json/request_json.h"

namespace gabbro::server {

struct AnthropicMessages {
  Json messages;        // as read_messages() gives them
  std::string prefill;  // the begin of the answer: text of a last message by the assistant
};

// Reads "system" and "messages". Blocks of system that begin with "x-anthropic-billing-header:" are left out: they
// change with each request, and no prefix would be found again. Throws ApiError that names the message and the block.
AnthropicMessages read_anthropic_messages(Fields& fields);

// Variables of the template from "thinking" and output_config.effort. Without "thinking" the model does not think.
Json read_anthropic_variables(Fields& fields);

}  // namespace gabbro::server
