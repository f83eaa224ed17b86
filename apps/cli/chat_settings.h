// `/set` of the chat.
#pragma once

#include <string>

#include "apps/cli/conversation.h"

namespace gabbro::cli {

// Follows "parameter temperature 0.7" or "system TEXT", and returns what to tell the user. A parameter has the name of
// an option of `run`, or that of llama.cpp or Ollama. Throws bad_input for a value that cannot be; nothing changes
// then.
std::string change_setting(Conversation& conversation, const std::string& setting);

}  // namespace gabbro::cli
