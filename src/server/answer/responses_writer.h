// Answers in the form of OpenAI's Responses.
#pragma once

#include <set>
#include <string>

#include "src/server/answer/answer.h"

namespace gabbro::server {

struct ResponsesForm {
  Json response;                               // the members of the answer that do not depend on the model's text
  bool gives_thoughts = false;                 // also as "encrypted_content", which a client sends back
  const text::Tokenizer* tokenizer = nullptr;  // counts the tokens of thoughts
  std::set<std::string> custom_tools{};        // their calls have a text as input
};

std::unique_ptr<AnswerWriter> make_responses_writer(ResponsesForm form);

}  // namespace gabbro::server
