// The interactive chat of `run`.
#pragma once

#include <functional>

#include "apps/cli/conversation.h"
#include "apps/cli/input_files.h"
#include "apps/cli/tool_commands.h"

namespace gabbro::cli {

// Reads lines from the terminal until /exit, Ctrl-D, or a second Ctrl-C at the prompt. `after_answer` is called with
// each result; `wrap`: lines of answers wrap at words; `inputs` are not overwritten by /save; `tools`: null without
// any. Returns the exit code.
int chat(Conversation& conversation, const ToolCommands* tools, const InputFiles& inputs, bool wrap,
         const std::function<void(const GenerateResult&)>& after_answer);

}  // namespace gabbro::cli
