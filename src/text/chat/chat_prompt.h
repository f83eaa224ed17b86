// A conversation as a model's prompt. A template that takes the messages is rendered as Jinja2 does. For others,
// content is given in the form that the template reads, and a system message that it has no place for goes into the
// first user message; short probes tell which template is which.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/text/chat/chat_template.h"

namespace gabbro::text {

struct ChatPrompt {
  jinja::MarkedText text;
  std::vector<std::string> notes;  // what was done for the template, one line each: for the user to see
  std::vector<size_t> lost;        // messages (but for the assistant's) of whose content nothing is in the text
};

// Renders as ChatTemplate::render, with two retries where text is lost or the template fails. First, for templates that
// lose the text of a probe (a user message, perhaps with a system message before it) and keep it as parts: string
// content as [{"type": "text", "text": content}], in the messages that were lost, or in all where the template failed.
// Second, where the template loses or refuses (raise_exception) the system message of a probe, too: its text before
// that of the first user message. Throws what the template says of the conversation as it was given, with a hint where
// a system message may be the reason.
ChatPrompt render_prompt(const ChatTemplate& chat_template, const nlohmann::ordered_json& messages,
                         const nlohmann::ordered_json& tools, bool add_generation_prompt,
                         const nlohmann::ordered_json& extra);

// Whether the template's text changes with the tools: false for one that does not show them. `tools` is not empty.
bool shows_tools(const ChatTemplate& chat_template, const nlohmann::ordered_json& messages,
                 const nlohmann::ordered_json& tools, const nlohmann::ordered_json& extra);

// Throws bad_input where a user's message is lost.
void require_user_text(const ChatPrompt& prompt, const nlohmann::ordered_json& messages);

}  // namespace gabbro::text
