// Answers in the form of Anthropic's Messages.
#pragma once

#include "src/server/answer/answer.h"

namespace gabbro::server {

struct AnthropicForm {
  std::string id, model;
  int64_t prompt_tokens = 0;
  std::string request_id;  // for errors in a stream
};

std::unique_ptr<AnswerWriter> make_anthropic_writer(AnthropicForm form);

}  // namespace gabbro::server
