// The interactive chat of `run`.
#pragma once

#include <functional>

#include "apps/cli/conversation.h"

namespace gabbro::cli {

// Reads lines from the terminal until /exit, Ctrl-D, or a second Ctrl-C at the prompt. `after_answer` is called with
// each result; `wrap`: lines of answers wrap at words. Returns the exit code.
int chat(Conversation& conversation, bool wrap, const std::function<void(const GenerateResult&)>& after_answer);

}  // namespace gabbro::cli
