// A conversation as a model's prompt in which no text is lost: content is given in the form that the template reads,
// and a system message that it has no place for goes into the first user message.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/text/chat_template.h"

namespace gabbro::text {

struct ChatPrompt {
  jinja::MarkedText text;
  std::vector<std::string> notes;  // what was done for the template, one line each: for the user to see
  std::vector<size_t> lost;        // messages (but for the assistant's) of whose content nothing is in the text
};

// Renders as ChatTemplate::render, with two retries. First, for templates that iterate over parts: string content as
// [{"type": "text", "text": content}], in the messages that were lost, or in all where the template failed. Second,
// where the system message is lost or refused (raise_exception): its text before that of the first user message. Throws
// what the template says of the conversation as it was given, with a hint where a system message may be the reason.
ChatPrompt render_prompt(const ChatTemplate& chat_template, const nlohmann::ordered_json& messages,
                         const nlohmann::ordered_json& tools, bool add_generation_prompt,
                         const nlohmann::ordered_json& extra);

// Throws bad_input where a user's message is lost.
void require_user_text(const ChatPrompt& prompt, const nlohmann::ordered_json& messages);

}  // namespace gabbro::text
