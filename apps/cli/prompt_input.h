// The prompt of `run`: its argument, a file, standard input, or the first with one of the others below it.
#pragma once

#include <optional>
#include <string>

#include "apps/cli/command_line.h"

namespace gabbro::cli {

struct PromptInput {
  std::optional<std::string> prompt;
  std::string file;
  bool no_stdin = false;
};

// PROMPT, --file and --no-stdin, and what the help page says of them.
void add_prompt(Command command, PromptInput& input);

// No prompt is given and standard input is a terminal.
bool is_interactive(const PromptInput& input);

// Reads what the options ask for. Standard input is read where there is no PROMPT and no --file, where "-" names it,
// and below a PROMPT where it is a pipe, a socket, or a file that has not been read from. In a shell's `while read`
// loop it is a file that the loop has read from: then a note says that it is left alone. Throws bad_input where all of
// it is empty.
std::string read_prompt(const PromptInput& input);

}  // namespace gabbro::cli
